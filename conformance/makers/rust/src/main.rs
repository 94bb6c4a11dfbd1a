//! rmcp as a server and as a client.
use std::{sync::Mutex, time::{Duration, Instant}};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt,
    model::*,
    service::{NotificationContext, PeerRequestOptions, RequestContext},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess, stdio,
        streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager},
    },
};
use serde_json::json;

#[derive(Clone)]
struct Server;

fn said(text: impl Into<String>) -> Result<CallToolResponse, ErrorData> {
    Ok(CallToolResult::success(vec![ContentBlock::text(text.into())]).into())
}

fn form() -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Who are you?".into(),
        requested_schema: serde_json::from_value(json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})).unwrap(),
    }
}

fn answered(answer: ElicitResult) -> Result<CallToolResponse, ErrorData> {
    let name = answer.content.as_ref().and_then(|c| c["name"].as_str()).unwrap_or("").to_string();
    said(format!("{} {name}", serde_json::to_value(&answer.action).unwrap().as_str().unwrap()))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        let object = |schema: serde_json::Value| schema.as_object().unwrap().clone();
        let text = object(json!({"type": "object", "properties": {"text": {"type": "string"}}}));
        let number = object(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new("echo", "echo", text.clone()), Tool::new("count", "count", number.clone()), Tool::new("fail", "fail", text.clone()),
            Tool::new("ask", "ask", text), Tool::new("slow", "slow", number),
        ]))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let n = arguments.get("n").and_then(|n| n.as_u64()).unwrap_or(0);
        match request.name.as_ref() {
            "echo" => said(arguments.get("text").and_then(|t| t.as_str()).unwrap_or("")),
            "count" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for i in 1..=n {
                        let step = ProgressNotificationParam::new(token.clone(), i as f64).with_total(n as f64).with_message(format!("step {i}"));
                        let _ = context.peer.notify_progress(step).await;
                    }
                }
                said(format!("counted {n}"))
            }
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("failed on purpose")]).into()),
            "ask" => {
                if let Some(answer) = request.input_responses.and_then(|r| r.get("who").cloned()) {
                    return answered(serde_json::from_value(answer).map_err(|e| ErrorData::invalid_params(e.to_string(), None))?);
                }
                match context.peer.create_elicitation(form()).await {
                    Ok(answer) => answered(answer),
                    Err(_) => { // 2026-07-28: no requests to clients
                        let mut requests = InputRequests::new();
                        requests.insert("who".into(), InputRequest::Elicitation(ElicitRequest::new(form())));
                        Ok(InputRequiredResult::new(Some(requests), None).into())
                    }
                }
            }
            "slow" => tokio::select! {
                _ = tokio::time::sleep(Duration::from_millis(n)) => said("slept"),
                _ = context.ct.cancelled() => said("cancelled"),
            },
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }
}

#[derive(Clone)]
struct Client;

static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::builder().enable_elicitation().build(), Implementation::new("rmcp", "1"))
    }
    async fn create_elicitation(&self, _: ElicitRequestParams, _: RequestContext<RoleClient>) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "anna"})))
    }
    async fn on_progress(&self, p: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        REPORTED.lock().unwrap().push(p.progress.to_string());
    }
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let service: StreamableHttpService<Server, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Server), Default::default(), StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn mode(era: &str) -> ClientLifecycleMode {
    match era {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    }
}

type Running = rmcp::service::RunningService<RoleClient, Client>;
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

async fn connect(era: &str, target: &[&str]) -> Outcome<Running> {
    if target[0].starts_with("http") {
        return Ok(Client.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(target[0].to_string()), mode(era)).await?);
    }
    let mut command = tokio::process::Command::new(target[0]);
    command.args(&target[1..]);
    Ok(Client.serve_with_lifecycle(TokioChildProcess::new(command)?, mode(era)).await?)
}

fn request(name: &str, arguments: serde_json::Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name.to_string()).with_arguments(arguments.as_object().unwrap().clone())
}

async fn call(client: &Running, name: &str, arguments: serde_json::Value) -> Outcome<String> {
    let result = serde_json::to_value(client.call_tool(request(name, arguments)).await?)?;
    let text = result["content"][0]["text"].as_str().unwrap_or("").to_string();
    Ok(if result["isError"] == json!(true) { format!("isError: {text}") } else { text })
}

/// The milliseconds of n calls one after the other, shortest first.
async fn times(client: &Running, n: usize, name: &str) -> Outcome<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..n {
        let began = Instant::now();
        call(client, name, json!({"text": "hi"})).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Prints a line for each case: its name, a tab, what came of it. In between it prints times, which differ from run to run.
async fn client(era: &str, target: &[&str]) -> Outcome<()> {
    let began = Instant::now();
    let client = connect(era, target).await?;
    let mut names: Vec<_> = client.list_all_tools().await?.into_iter().map(|t| t.name.to_string()).collect();
    println!("open took {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    names.sort();
    println!("list\t{}", names.join(","));
    println!("call\t{}", call(&client, "echo", json!({"text": "hällo"})).await?);
    println!("call took {:.1} ms", times(&client, 60, "echo").await?[30]);
    call(&client, "count", json!({"n": 3})).await?;
    for _ in 0..100 { // each notification has a task of its own: they come in any order, and perhaps after the response
        if REPORTED.lock().unwrap().len() >= 3 { break }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    REPORTED.lock().unwrap().sort();
    println!("progress\t{}", REPORTED.lock().unwrap().join(" "));
    println!("fail\t{}", call(&client, "fail", json!({"text": ""})).await?);
    println!("unknown\t{}", match call(&client, "nonsense", json!({})).await { Ok(text) if !text.starts_with("isError") => text, _ => "refused".into() });
    println!("ask\t{}", call(&client, "ask", json!({"text": ""})).await?);
    println!("ask took {:.1} ms", times(&client, 3, "ask").await?[0]);
    let slow = CallToolRequest::new(request("slow", json!({"n": 20000})));
    let handle = client.send_cancellable_request(ClientRequest::CallToolRequest(slow), PeerRequestOptions::no_options()).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    handle.cancel(Some("enough".into())).await?;
    println!("cancel\tcancelled");
    println!("afterwards\t{}", call(&client, "echo", json!({"text": "still here"})).await?);
    client.cancel().await?;
    Ok(())
}

async fn bench(era: &str, url: &str, n: usize) -> Outcome<()> {
    let client = connect(era, &[url]).await?;
    let times = times(&client, n, "echo").await?;
    println!("n={n} median {:.2} p90 {:.2} p99 {:.2} ms", times[n / 2], times[n * 9 / 10], times[n * 99 / 100]);
    client.cancel().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["serve", "http"] => serve().await,
        ["serve", "stdio"] => { Server.serve(stdio()).await?.waiting().await?; Ok(()) }
        ["client", era, ref target @ ..] => client(era, target).await,
        ["bench", era, url, n] => bench(era, url, n.parse()?).await,
        _ => Err("usage".into()),
    }
}
