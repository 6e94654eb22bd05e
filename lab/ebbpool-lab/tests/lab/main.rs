//! The lab: requests, answers, what it exports, and its golden results.

mod advise;
mod curves;
mod guests;
mod public_api;
mod requests;
mod results;
