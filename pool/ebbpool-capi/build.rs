//! Gives the shared library the name under which programs that link it look for it at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // The number goes up with a change that programs built before do not survive (docs/c.md).
    match system.as_str() {
        "linux" | "android" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libebbpool.so.0");
        }
        "macos" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libebbpool.0.dylib");
        }
        _ => {}
    }
}
