//! Generates the code of the contract, and a descriptor of it for server reflection.

use std::{env, error::Error, fs, path::Path};

use prost::Message;

/// Where Dragoman's repository has the contract. A provider of your own has a copy of this folder.
const PROTO: &str = "../../adapters/grpc/proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let files = protox::compile(["mcp/provider/v1/provider.proto"], [PROTO])?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("provider.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure().include_file("contract.rs").compile_fds(files)?;
    Ok(())
}
