//! A local page that follows training: what is shown ([`Feed`]), where it comes from ([`Follow`], or an observer of a run in
//! this process), and who serves it ([`Server`]).

mod feed;
mod follow;
mod server;

pub use feed::{Feed, Watched};
pub use follow::Follow;
pub use server::Server;
