//! Last names of customers.

use super::super::random::Random;
use super::non_uniform;
use super::schema::CUSTOMERS;

pub(super) const NAMES: u64 = 1_000;
/// The standard's A for names.
pub(super) const NAME_REACH: u64 = 255;

/// The names of a district's customers; all districts have the same.
///
/// Each of the first thousand customers has a different name; the names of the others are
/// non-uniform (standard, 4.3.3.1).
pub(super) struct Customers {
    /// Customers in the order of names.
    by_name: Vec<u16>,
    /// Where the customers of each name begin in `by_name`, and its length.
    begins: Vec<u16>,
    /// The index of each customer in `by_name`.
    index_of: Vec<u16>,
}

impl Customers {
    pub(super) fn new(seed: u64) -> Customers {
        let mut random = Random::new(seed);
        let mut names: Vec<(u64, u16)> = (0..CUSTOMERS)
            .map(|customer| {
                let name = if customer < NAMES { customer } else { non_uniform(&mut random, NAME_REACH, 0, NAMES) };
                (name, customer as u16)
            })
            .collect();
        names.sort_unstable();
        let begins = (0..=NAMES).map(|name| names.partition_point(|&(other, _)| other < name) as u16).collect();
        let by_name: Vec<u16> = names.iter().map(|&(_, customer)| customer).collect();
        let mut index_of = vec![0; by_name.len()];
        for (index, &customer) in by_name.iter().enumerate() {
            index_of[usize::from(customer)] = index as u16;
        }
        Customers { by_name, begins, index_of }
    }

    /// The customers of a district with this name.
    pub(super) fn named(&self, name: u64) -> &[u16] {
        let name = (name % NAMES) as usize;
        &self.by_name[usize::from(self.begins[name])..usize::from(self.begins[name + 1])]
    }

    /// The rank of a customer of any district in the order of districts and names.
    pub(super) fn name_rank(&self, customer: u64) -> u64 {
        let within = customer % CUSTOMERS;
        customer - within + u64::from(self.index_of[within as usize])
    }
}
