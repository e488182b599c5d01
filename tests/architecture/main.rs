//! The rules of the tree that a machine can check: which crate may use what, and the style of files.

mod dependencies;
mod tidy;

use std::path::{Path, PathBuf};

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the repository").to_owned()
}
