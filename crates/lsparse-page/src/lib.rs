//! Pages to look at: training as it goes ([`watch`]), and topics ([`explore`]). What people see is hand-written in `web/`, with
//! no framework and no step that builds it, and becomes part of the program.

#![forbid(unsafe_code)]

pub mod explore;
pub mod watch;
