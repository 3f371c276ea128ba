//! Writes core/v1 Events without ever delaying a loop.
