//! Mistakes of operators, and the controller's messages.

mod api_server;
mod flags;
mod objects;
mod providers;
