//! What is nobody's model: linear algebra of small matrices, and draws from distributions.

pub mod agreement;
pub mod linalg;
pub(crate) mod random;
