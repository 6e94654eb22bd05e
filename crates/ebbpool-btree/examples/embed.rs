//! A database in a program of your own: `cargo run --example embed`.

use ebbpool_btree::{Error, Options};

fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join("ebbpool-embed.db");
    let database = Options::new(1000).open(&path)?;

    // Both, or neither.
    let mut transfer = database.begin();
    transfer.put(b"account/alice", b"70")?;
    transfer.put(b"account/bob", b"30")?;
    transfer.commit()?;

    for record in database.range("account/".."account0") {
        let (key, value) = record?;
        println!(
            "{}: {}",
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&value)
        );
    }
    database.close()
}
