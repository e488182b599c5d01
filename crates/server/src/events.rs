//! Published events: writing them with the change they tell of, reading and streaming them.

pub mod append;
pub mod places;
