//! Uses a database inside a program: `cargo run -p ebbpool-btree --example embed_database`.

use ebbpool_btree::{DatabaseError, DatabaseOptions};

fn main() -> Result<(), DatabaseError> {
    let path = std::env::temp_dir().join("ebbpool-embed.db");
    let database = DatabaseOptions::new(1000).open(&path)?;

    // Both changes take effect, or neither.
    let mut transfer = database.begin();
    transfer.put(b"account/alice", b"70")?;
    transfer.put(b"account/bob", b"30")?;
    transfer.commit()?;

    for record in database.range("account/".."account0") {
        let (key, value) = record?;
        println!("{}: {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    database.close()
}
