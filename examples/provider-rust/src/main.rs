//! The server of the provider: `provider-rust --listen 127.0.0.1:50052`.

use std::{env, error::Error, process::ExitCode};

use provider_rust::{contract, contract::mcp::provider::v1::provider_server::ProviderServer, hello::Hello};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};
use tonic_health::ServingStatus;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let listen = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => "127.0.0.1:50052",
        ["--listen", address] => address,
        _ => {
            eprintln!("usage: provider-rust [--listen HOST:PORT]");
            return ExitCode::from(2);
        }
    };
    match run(listen).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-rust: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until SIGINT or SIGTERM, and lets the calls that run then end.
async fn run(listen: &str) -> Result<(), Box<dyn Error>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = TcpListener::bind(listen).await?;
    eprintln!("provider-rust: listening on grpc://{}", listener.local_addr()?);
    // Small messages, such as progress, must not wait for the acknowledgement of those before
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let stop = CancellationToken::new();
    let (health, health_service) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(contract::DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Server::builder()
        .add_service(ProviderServer::new(Hello::new("hello-rs", stop.clone())))
        .add_service(health_service)
        .add_service(reflection)
        .serve_with_incoming_shutdown(incoming, async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // Dragoman sends no new calls here
            health.set_service_status("", ServingStatus::NotServing).await;
            stop.cancel(); // ends what lasts
        })
        .await?;
    Ok(())
}
