//! A provider for Dragoman: a gRPC service that implements `mcp.provider.v1`.

pub mod hello;
mod tools;

/// The code that build.rs generates of the contract.
pub mod contract {
    #![allow(clippy::large_enum_variant)]
    include!(concat!(env!("OUT_DIR"), "/contract.rs"));

    /// The contract for server reflection.
    pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/provider.bin"));
}
