//! Keys and values of records.

use super::WorkloadError;

/// How the number of a record becomes its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The number as a big-endian integer of this many bytes, 1 to 8: keys are in the order of numbers.
    Numbers(usize),
    /// 8 bytes that look random, a different key for each number: records with consecutive numbers are
    /// scattered, as with YCSB's `insertorder=hashed`.
    Hashed,
}

impl Keys {
    /// Bytes of a key.
    pub fn length(self) -> usize {
        match self {
            Keys::Numbers(bytes) => bytes,
            Keys::Hashed => 8,
        }
    }

    /// Checks whether `records` records can have different keys.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Keys`], with the number of records for which the keys suffice.
    pub fn suffice(self, records: u64) -> Result<(), WorkloadError> {
        let Keys::Numbers(bytes) = self else {
            return Ok(());
        };
        let most = match bytes {
            0 => 0,
            1..8 => 1 << (8 * bytes),
            _ => u64::MAX,
        };
        if bytes > 8 || records > most {
            return Err(WorkloadError::Keys { bytes, most, records });
        }
        Ok(())
    }

    /// The key of a record. Where keys do not [suffice](Self::suffice), it is the number's last bytes.
    pub fn key(self, record: u64) -> Vec<u8> {
        match self {
            Keys::Numbers(bytes) => record.to_be_bytes()[8 - bytes.min(8)..].to_vec(),
            Keys::Hashed => mixed(record).to_be_bytes().to_vec(),
        }
    }

    /// The record that has a key; `None` if no record can have it.
    pub fn record(self, key: &[u8]) -> Option<u64> {
        if key.len() != self.length() || key.len() > 8 {
            return None;
        }
        let mut number = [0; 8];
        number[8 - key.len()..].copy_from_slice(key);
        let number = u64::from_be_bytes(number);
        Some(match self {
            Keys::Numbers(_) => number,
            Keys::Hashed => unmixed(number),
        })
    }
}

/// Fills a value with bytes that do not compress and depend on the seed (SplitMix64).
pub fn fill_value(value: &mut [u8], seed: u64) {
    let mut state = mixed(seed);
    for bytes in value.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        bytes.copy_from_slice(&mixed(state).to_le_bytes()[..bytes.len()]);
    }
}

/// The last step of SplitMix64 (Steele, Lea and Flood, 2014), which is a bijection.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// The inverse of [`mixed`]: its steps in reverse, with the inverse factors.
fn unmixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31) ^ (number >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let number = (number ^ (number >> 27) ^ (number >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    number ^ (number >> 30) ^ (number >> 60)
}
