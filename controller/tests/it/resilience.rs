//! Programs that are killed in the middle of their work, and an API server that has bad days.

mod api_faults;
mod lost_answers;
mod outages;
mod watches;
