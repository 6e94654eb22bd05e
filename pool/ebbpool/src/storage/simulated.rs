//! Pages in memory, with the costs of a simulated device.

use std::io;

use ebbpool_cost::{OperationCosts, Unit};
use ebbpool_device::flash::{ConfigError, FlashConfig};
use ebbpool_device::{AnyDevice, Device, DeviceFailed, DeviceProfile, FlashDevice, ProfileError};
use parking_lot::Mutex;

use super::{MemoryStorage, Read, Storage, Write};

/// Why a simulated storage cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedError {
    /// There is no such profile, neither by name nor as a file.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The configuration of the flash device is wrong.
    #[error(transparent)]
    Flash(#[from] ConfigError),
}

/// A storage in memory that reports the costs of a device: reads and writes take no time, and return what they would
/// cost on the device.
pub struct SimulatedStorage {
    name: String,
    memory: MemoryStorage,
    device: Mutex<AnyDevice>,
    unit: Unit,
}

impl SimulatedStorage {
    /// Pages of `page_size` bytes on a device; `name` is its name in descriptions.
    pub fn new(device: impl Into<AnyDevice>, name: &str, page_size: usize) -> Self {
        let device = device.into();
        SimulatedStorage {
            name: name.into(),
            memory: MemoryStorage::new(page_size),
            unit: device.costs().unit,
            device: Mutex::new(device),
        }
    }

    /// Pages of `page_size` bytes on a device as the command line names them: a profile's name, a
    /// TOML file, or `flash:PROFILE,key=value…`, which is simulated down to the chip.
    ///
    /// # Errors
    ///
    /// If there is no such device, or pages of this size do not lie evenly on it.
    pub fn named(device: &str, page_size: usize) -> Result<Self, SimulatedError> {
        let any: AnyDevice = match device.starts_with("flash:") {
            true => {
                let config: FlashConfig = device.parse()?;
                FlashDevice::new(&config, Some(page_size as u64), None)?.into()
            }
            false => {
                let profile = DeviceProfile::find(device)?;
                profile.for_pages(Some(page_size as u64)).device().into()
            }
        };
        Ok(Self::new(any, device, page_size))
    }

    /// Calls `look` with the device, for example to read its counters. The storage waits meanwhile.
    pub fn with_device<T>(&self, look: impl FnOnce(&mut AnyDevice) -> T) -> T {
        look(&mut self.device.lock())
    }

    /// Serves all pages on the device, sets the outcome of those that fail, and returns the average cost of the
    /// others.
    fn serve<'a, P: 'a>(
        &self,
        all: &'a mut [P],
        page: impl Fn(&P) -> u64,
        serve: impl Fn(&mut AnyDevice, u64) -> Result<f64, DeviceFailed>,
        outcome: impl Fn(&mut P) -> &mut io::Result<()>,
    ) -> Option<f64> {
        let mut device = self.device.lock();
        let (mut cost, mut served) = (0.0, 0u32);
        for one in all {
            match serve(&mut device, page(one)) {
                Ok(amount) => {
                    cost += amount;
                    served += 1;
                }
                Err(failed) => *outcome(one) = Err(io::Error::other(failed)),
            }
        }
        (served > 0).then(|| cost / f64::from(served))
    }
}

impl Storage for SimulatedStorage {
    fn page_size(&self) -> usize {
        self.memory.page_size()
    }

    fn pages(&self) -> io::Result<u64> {
        self.memory.pages()
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        let most = self.device.lock().pages();
        if pages > most {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("{} has {most} pages of {} bytes, and cannot have {pages}", self.name, self.page_size()),
            ));
        }
        self.memory.grow(pages)
    }

    /// The device learns that nothing needs the pages.
    fn truncate(&self, pages: u64) -> io::Result<()> {
        let end = self.memory.pages()?;
        if pages < end {
            self.device.lock().trim(pages, end - 1).map_err(io::Error::other)?;
        }
        self.memory.truncate(pages)
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.memory.read(reads);
        let read = |device: &mut AnyDevice, page| device.read(page);
        self.serve(reads, |read| read.page, read, |read| &mut read.outcome)
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        for write in writes.iter_mut() {
            write.outcome = Ok(());
        }
        let write = |device: &mut AnyDevice, page| device.write(page);
        let cost = self.serve(writes, |write| write.page, write, |write| &mut write.outcome);
        // Pages that the device could not program are not stored.
        for write in writes.iter_mut().filter(|write| write.outcome.is_ok()) {
            self.memory.write(std::slice::from_mut(write));
        }
        cost
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn assumed_costs(&self) -> OperationCosts {
        self.device.lock().costs()
    }

    fn erases_of(&self, page: u64) -> Option<u32> {
        match &*self.device.lock() {
            AnyDevice::Flash(flash) => Some(flash.erases_of(page)),
            AnyDevice::Plain(_) | AnyDevice::Changing(_) => None,
        }
    }

    fn describe(&self) -> String {
        format!("memory, at the costs of {}", self.name)
    }
}

impl std::fmt::Debug for SimulatedStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedStorage").field("name", &self.name).finish_non_exhaustive()
    }
}
