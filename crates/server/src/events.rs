//! Published events: writing them with the change they tell of, reading and streaming them.

pub mod append;
pub mod authority;
pub mod cursor;
pub mod frames;
pub mod history;
pub mod long_poll;
pub mod outlet;
pub mod places;
pub mod publish;
pub mod reader;
pub mod scope;
pub mod sse;
pub mod stream;
pub mod tail;
pub mod writer;
