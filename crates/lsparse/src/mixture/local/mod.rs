//! The local step of a mixture: which clusters a row is weighed against, and what is made of them.

pub(super) mod device;
pub mod methods;
pub(super) mod nearest;
pub mod search;
pub(super) mod trial;
