//! The provider behind gRPC on the loopback.

use std::time::Duration;

use provider_rust::contract::io::cloudevents::v1::cloud_event::Data;
use provider_rust::contract::mcp::provider::v1::*;
use provider_rust::contract::mcp::provider::v1::{
    answer::Outcome, call_tool_response, content, interact_request, interact_response, provider_client::ProviderClient, provider_server::ProviderServer,
    resource_contents, watch_response,
};
use provider_rust::hello::Hello;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Server};
use tonic::{Code, Streaming};

const URI: &str = "hello://greeting";

/// A provider that serves, and a client of it.
struct Rig {
    client: ProviderClient<Channel>,
    stop: CancellationToken,
    served: JoinHandle<Result<(), tonic::transport::Error>>,
}

async fn rig() -> Rig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let service = ProviderServer::new(Hello::new("hello-rs", stop.clone()));
    let serving = Server::builder().add_service(service);
    let served = tokio::spawn(serving.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned()));
    let client = ProviderClient::connect(address).await.unwrap();
    Rig { client, stop, served }
}

/// The next message of a stream, which must come within a few seconds.
async fn next<T>(stream: &mut Streaming<T>) -> Option<T> {
    timeout(Duration::from_secs(5), stream.message()).await.expect("a message").unwrap()
}

fn tool(name: &str, arguments: &str) -> CallToolRequest {
    let wants = Wants {
        progress: true,
        log: LogLevel::Info.into(),
        ..Wants::default()
    };
    CallToolRequest {
        name: name.into(),
        arguments: arguments.into(),
        wants: Some(wants),
        ..CallToolRequest::default()
    }
}

fn said(result: &CallToolResult) -> &str {
    match &result.content[0].kind {
        Some(content::Kind::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

/// Calls a tool; returns its progress, its logs and its result.
async fn call(rig: &mut Rig, request: CallToolRequest) -> (Vec<f64>, Vec<String>, CallToolResult) {
    let mut stream = rig.client.call_tool(request).await.unwrap().into_inner();
    let (mut progress, mut logs) = (Vec::new(), Vec::new());
    loop {
        match next(&mut stream).await.expect("a result").message.unwrap() {
            call_tool_response::Message::Progress(p) => progress.push(p.progress),
            call_tool_response::Message::Log(l) => logs.push(l.data),
            call_tool_response::Message::Result(result) => {
                assert!(next(&mut stream).await.is_none(), "the result is the last message");
                return (progress, logs, result);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Calls greet.v1 with an outcome for each question; returns the questions and the result.
async fn greet(rig: &mut Rig, arguments: &str, outcomes: &[Outcome]) -> (Vec<String>, CallToolResult) {
    let (answers, requests) = mpsc::channel(4);
    let first = interact_request::Message::CallTool(tool("greet.v1", arguments));
    answers.send(InteractRequest { message: Some(first) }).await.unwrap();
    let mut stream = rig.client.interact(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let mut questions = Vec::new();
    loop {
        match next(&mut stream).await.expect("a result").message.unwrap() {
            interact_response::Message::Question(Question { id, params, .. }) => {
                let answer = Answer {
                    id,
                    outcome: Some(outcomes[questions.len()].clone()),
                };
                questions.push(params);
                answers
                    .send(InteractRequest {
                        message: Some(interact_request::Message::Answer(answer)),
                    })
                    .await
                    .unwrap();
            }
            interact_response::Message::Tool(result) => return (questions, result),
            other => panic!("unexpected {other:?}"),
        }
    }
}

async fn greeting(rig: &mut Rig) -> String {
    let read = rig
        .client
        .read_resource(ReadResourceRequest {
            uri: URI.into(),
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    match read.contents.into_iter().next().unwrap().contents {
        Some(resource_contents::Contents::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

#[tokio::test]
async fn lists_what_it_has() {
    let mut rig = rig().await;
    let all = rig.client.list_capabilities(ListCapabilitiesRequest::default()).await.unwrap().into_inner();
    assert_eq!(all.provider.unwrap().name, "hello-rs");
    let names: Vec<_> = all.tools.iter().map(|t| (t.name.as_str(), t.asks)).collect();
    assert_eq!(names, [("echo.v1", false), ("count.v1", false), ("greet.v1", true), ("notify.v1", false)]);
    for tool in &all.tools {
        let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", tool.name);
    }
    assert_eq!((all.resources[0].uri.as_str(), all.prompts[0].name.as_str()), (URI, "hello-plan"));
}

#[tokio::test]
async fn echoes() {
    let mut rig = rig().await;
    let arguments = r#"{"message":"grüße \"quoted\" 🦊"}"#;
    let (_, _, result) = call(&mut rig, tool("echo.v1", arguments)).await;
    assert_eq!((said(&result), result.structured_content.as_str()), ("grüße \"quoted\" 🦊", arguments));
}

#[tokio::test]
async fn counts_with_progress_and_logs() {
    let mut rig = rig().await;
    let (progress, logs, result) = call(&mut rig, tool("count.v1", r#"{"to":3}"#)).await;
    assert_eq!((progress, said(&result)), (vec![1.0, 2.0, 3.0], "counted to 3"));
    assert_eq!(logs, [r#""counted 1""#, r#""counted 2""#, r#""counted 3""#]);
    for (level, count) in [(LogLevel::Unspecified, 0), (LogLevel::Debug, 2), (LogLevel::Notice, 0)] {
        let wants = Wants {
            log: level.into(),
            ..Wants::default()
        };
        let (progress, logs, _) = call(
            &mut rig,
            CallToolRequest {
                wants: Some(wants),
                ..tool("count.v1", r#"{"to":2}"#)
            },
        )
        .await;
        assert_eq!((progress.len(), logs.len()), (0, count), "{level:?}");
    }
}

#[tokio::test]
async fn stops_when_nothing_runs_that_was_cancelled() {
    let mut rig = rig().await;
    let mut stream = rig
        .client
        .call_tool(tool("count.v1", r#"{"to":100,"pause_ms":1000}"#))
        .await
        .unwrap()
        .into_inner();
    assert!(next(&mut stream).await.is_some());
    drop(stream); // cancels the call
    rig.stop.cancel();
    // A call that still ran would take a minute and a half
    timeout(Duration::from_secs(5), rig.served).await.expect("the server ends").unwrap().unwrap();
}

#[tokio::test]
async fn asks_the_user() {
    let accept = |key: &str, value: &str| Outcome::Result(format!(r#"{{"action":"accept","content":{{"{key}":"{value}"}}}}"#));
    let failed = Outcome::Failure(Failure {
        code: Code::Unimplemented.into(),
        message: "no forms".into(),
    });
    let declined = Outcome::Result(r#"{"action":"decline"}"#.into());
    let cases = [
        ("{}", vec![accept("name", "Ada")], "Hello, Ada", false),
        (
            r#"{"question":"Name?","formal":true}"#,
            vec![accept("name", "Ada"), accept("title", "Dr")],
            "Hello, Dr Ada",
            false,
        ),
        ("{}", vec![declined.clone()], "nobody to greet", false),
        (r#"{"formal":true}"#, vec![accept("name", "Ada"), declined], "nobody to greet", false),
        ("{}", vec![failed], "the client cannot be asked: no forms", true),
    ];
    let mut rig = rig().await;
    for (arguments, outcomes, want, is_error) in cases {
        let before = greeting(&mut rig).await;
        let (questions, result) = greet(&mut rig, arguments, &outcomes).await;
        assert_eq!((questions.len(), said(&result), result.is_error), (outcomes.len(), want, is_error));
        let asked: serde_json::Value = serde_json::from_str(&questions[0]).unwrap();
        assert_eq!(asked["message"], if arguments.contains("question") { "Name?" } else { "Who are you?" });
        let greeted = want.starts_with("Hello");
        assert_eq!(greeting(&mut rig).await, if greeted { want.into() } else { before });
    }
}

#[tokio::test]
async fn refuses_what_it_does_not_have() {
    let mut rig = rig().await;
    let invented = ListCapabilitiesRequest {
        page_token: "2".into(),
        ..Default::default()
    };
    assert_eq!(rig.client.list_capabilities(invented).await.err().unwrap().code(), Code::InvalidArgument);
    let codes = [
        rig.client.call_tool(tool("none.v1", "{}")).await.err().unwrap().code(),
        rig.client
            .read_resource(ReadResourceRequest {
                uri: "hello://none".into(),
                ..Default::default()
            })
            .await
            .err()
            .unwrap()
            .code(),
        rig.client
            .get_prompt(GetPromptRequest {
                name: "none".into(),
                ..Default::default()
            })
            .await
            .err()
            .unwrap()
            .code(),
        rig.client
            .interact(tokio_stream::once(InteractRequest {
                message: Some(interact_request::Message::CallTool(tool("echo.v1", "{}"))),
            }))
            .await
            .err()
            .unwrap()
            .code(),
    ];
    assert_eq!(codes, [Code::NotFound; 4]);
    assert_eq!(
        rig.client.call_tool(tool("count.v1", r#"{"to":"three"}"#)).await.err().unwrap().code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn gives_prompts_and_proposes_names() {
    let mut rig = rig().await;
    let request = GetPromptRequest {
        name: "hello-plan".into(),
        arguments: [("name".into(), "Zoë".into())].into(),
        ..Default::default()
    };
    let prompt = rig.client.get_prompt(request).await.unwrap().into_inner();
    let Some(content::Kind::Text(text)) = &prompt.messages[0].content.as_ref().unwrap().kind else {
        panic!("no text")
    };
    assert_eq!(text, "Greet Zoë, and propose a plan for the day.");
    for (argument, value, want) in [("name", "A", vec!["Ada", "Alan"]), ("name", "x", vec![]), ("other", "A", vec![])] {
        let request = CompleteRequest {
            argument: argument.into(),
            value: value.into(),
            ..Default::default()
        };
        assert_eq!(rig.client.complete(request).await.unwrap().into_inner().values, want, "{argument} {value}");
    }
}

#[tokio::test]
async fn watches_the_greeting() {
    let mut rig = rig().await;
    let uris = vec!["hello://none".into(), URI.into()];
    let mut watch = rig
        .client
        .watch(WatchRequest {
            uris,
            tools: true,
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    let watching = WatchRequest {
        uris: vec![URI.into()],
        ..Default::default()
    };
    assert_eq!(next(&mut watch).await.unwrap().message, Some(watch_response::Message::Watching(watching)));
    let ada = Outcome::Result(r#"{"action":"accept","content":{"name":"Ada"}}"#.into());
    greet(&mut rig, "{}", &[ada]).await;
    assert_eq!(next(&mut watch).await.unwrap().message, Some(watch_response::Message::Updated(URI.into())));
    rig.stop.cancel();
    let end = timeout(Duration::from_secs(5), watch.message()).await.expect("the watch ends");
    assert_eq!(end.err().unwrap().code(), Code::Unavailable);
    rig.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn emits_events() {
    let mut rig = rig().await;
    let mut events = rig.client.events(EventsRequest {}).await.unwrap().into_inner();
    let mut ids = Vec::new();
    for value in 1..=2 {
        let data = format!(r#"{{"metric":"load","value":{value}}}"#);
        call(&mut rig, tool("notify.v1", &data)).await;
        let event = next(&mut events).await.unwrap();
        assert_eq!(
            (event.source.as_str(), event.r#type.as_str()),
            ("urn:provider:hello-rs", "provider.metric.reported")
        );
        assert_eq!(event.data, Some(Data::TextData(data)));
        assert!(event.attributes.contains_key("time"));
        ids.push(event.id);
    }
    assert_ne!(ids[0], ids[1]);
}
