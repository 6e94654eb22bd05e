//! Storage at the costs of simulated devices.

use std::io;

use ebbpool::storage::{Read, SimulatedStorage, Storage, Write};
use ebbpool_cost::Unit;
use ebbpool_device::Device;

const PAGE: usize = 4096;

fn write(storage: &SimulatedStorage, pages: &[u64]) -> (Option<f64>, Vec<io::Result<()>>) {
    let buffer = [7; PAGE];
    let write = |&page: &u64| Write::new(page, &buffer);
    let mut writes: Vec<Write> = pages.iter().map(write).collect();
    let cost = storage.write(&mut writes);
    (cost, writes.into_iter().map(|write| write.outcome).collect())
}

fn read(storage: &SimulatedStorage, page: u64) -> (Option<f64>, Vec<u8>) {
    let mut buffer = vec![0xEE; PAGE];
    let mut reads = [Read::new(page, &mut buffer)];
    let cost = storage.read(&mut reads);
    reads[0].outcome.as_ref().expect("it is read");
    (cost, buffer)
}

#[test]
fn a_storage_has_the_costs_of_its_profile() {
    let storage = SimulatedStorage::named("optane-p4800x", PAGE).expect("a device");
    assert_eq!(storage.unit(), Unit::Microseconds);
    let costs = storage.assumed_costs();
    assert_eq!((costs.read, costs.write), (8.9, 9.8));
    let cost = write(&storage, &[3, 4, 5]).0.expect("a cost");
    assert!((cost - 9.8).abs() < 1e-9, "of a page, not of all: {cost}");
    assert_eq!(read(&storage, 4), (Some(8.9), vec![7; PAGE]));
    assert_eq!(read(&storage, 99).1, vec![0; PAGE]);
    assert_eq!(storage.pages().expect("pages"), 6);
    assert_eq!(storage.erases_of(4), None);
    assert_eq!(storage.with_device(|device| device.report().writes), 3);
    assert_eq!(storage.describe(), "memory, at the costs of optane-p4800x");
}

/// A page of 8 KiB takes two of the device's pages: the first at full time, the second in transfer time.
#[test]
fn a_large_page_costs_all_pages_of_the_device() {
    let storage = SimulatedStorage::named("optane-p4800x", 2 * PAGE).expect("a device");
    let costs = storage.assumed_costs();
    assert_eq!((costs.read, costs.write), (8.9 + 1.71, 9.8 + 2.05));
    let mut buffer = vec![0; 2 * PAGE];
    let mut reads = [Read::new(3, &mut buffer)];
    assert_eq!(storage.read(&mut reads), Some(costs.read));
    let object = SimulatedStorage::named("s3-express-1z", 2 * PAGE).expect("a device");
    assert_eq!(object.assumed_costs().write, 1.13e-6);
}

#[test]
fn the_costs_of_an_object_store_are_dollars() {
    let storage = SimulatedStorage::named("s3-express-1z", PAGE).expect("a device");
    assert_eq!(storage.unit(), Unit::Dollars);
    assert_eq!(write(&storage, &[1]).0, Some(1.13e-6));
}

#[test]
fn a_flash_device_counts_its_erases_and_its_writes_get_more_expensive() {
    let name = "flash:slc-mt29f4g08aaa,blocks=64,rho=0.9,bus=ignore,precondition=full";
    let storage = SimulatedStorage::named(name, PAGE).expect("a device");
    // A page takes two pages of the chip.
    assert_eq!(read(&storage, 0).0, Some(50.0));
    let stated = storage.assumed_costs();
    assert_eq!((stated.read, stated.write), (50.0, 440.0));
    let pages = storage.with_device(|device| device.pages());
    let (mut page, mut sum) = (1, 0.0);
    for _ in 0..20_000 {
        page = page * 48_271 % 2_147_483_647;
        let (cost, outcomes) = write(&storage, &[page % pages]);
        outcomes[0].as_ref().expect("room");
        sum += cost.expect("a cost");
        read(&storage, page % pages);
    }
    assert!(sum / 20_000.0 > 1.5 * 440.0, "{sum}");
    assert!(storage.assumed_costs().write > 1.5 * 440.0);
    assert!(storage.erases_of(page % pages).expect("it is flash") > 0);
    let error = storage.grow(pages + 1).expect_err("no room");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let (cost, outcomes) = write(&storage, &[0, pages]);
    outcomes[0].as_ref().expect("room");
    outcomes[1].as_ref().expect_err("beyond the end");
    assert!(cost.is_some());
}

#[test]
fn devices_that_do_not_exist_are_refused() {
    let error = SimulatedStorage::named("optan-p4800x", PAGE).expect_err("no device");
    assert!(error.to_string().contains("did you mean"), "{error}");
    SimulatedStorage::named("flash:slc-mt29f4g08aaa,bloks=3", PAGE).expect_err("no key");
    SimulatedStorage::named("flash:slc-mt29f4g08aaa", 5000).expect_err("odd pages");
}
