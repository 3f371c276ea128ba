//! Operation of the program: replicas that follow each other, their rights, their server, their
//! end.

mod escalation;
mod exits;
mod hand_over;
mod hosted;
mod identity;
mod permissions;
mod serving;
