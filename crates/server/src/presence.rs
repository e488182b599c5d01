//! Who is there: the store's rows say it, one function keeps them true (spec 02).

pub mod trust;
