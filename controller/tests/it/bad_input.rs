//! What people get wrong, and what the controller says to it.

mod api_server;
mod flags;
mod objects;
mod providers;
