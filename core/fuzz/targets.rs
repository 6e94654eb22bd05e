//! Policies, quantities and devices.
//!
//! A target takes any bytes and panics if a parser has a fault; `NAME.seeds` has inputs for it.

mod devices;
mod names;

use crate::FuzzTarget;

pub(crate) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "policy_list", check: names::policy_list },
    FuzzTarget { name: "fraction", check: names::fraction },
    FuzzTarget { name: "quantity", check: names::quantity },
    FuzzTarget { name: "asymmetry", check: names::asymmetry },
    FuzzTarget { name: "asymmetry_spec", check: names::asymmetry_spec },
    FuzzTarget { name: "changes", check: devices::changes },
    FuzzTarget { name: "flash_config", check: devices::flash_config },
    FuzzTarget { name: "chip", check: devices::chip },
    FuzzTarget { name: "device_profile", check: devices::device_profile },
];
