//! The service.

use std::{future::Future, pin::Pin, time::Duration, time::SystemTime};

use async_stream::try_stream;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::contract::io::cloudevents::v1::{
    CloudEvent, cloud_event::CloudEventAttributeValue, cloud_event::Data, cloud_event::cloud_event_attribute_value::Attr,
};
use crate::contract::mcp::provider::v1::*;
use crate::contract::mcp::provider::v1::{
    answer::Outcome, call_tool_response::Message, interact_request, provider_server::Provider, resource_contents, watch_response,
};
use crate::tools::{GREETING, capabilities, said, text};

/// The events that a stream may be behind. It loses older ones.
const KEPT_EVENTS: usize = 1000;

/// A stream of messages. What runs for it ends when it is dropped, which is what happens when its call is cancelled.
type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A provider whose greeting is a resource that the tool greet.v1 changes.
pub struct Hello {
    name: String,
    stop: CancellationToken,
    greeting: watch::Sender<String>,
    events: broadcast::Sender<CloudEvent>,
}

impl Hello {
    /// Returns a provider of a name. The streams that last end when `stop` is cancelled.
    pub fn new(name: impl Into<String>, stop: CancellationToken) -> Self {
        Self {
            name: name.into(),
            stop,
            greeting: watch::Sender::new("Hello, MCP".into()),
            events: broadcast::Sender::new(KEPT_EVENTS),
        }
    }

    /// Emits an event with data, a JSON object.
    fn emit(&self, data: String) {
        let attribute = |attr| CloudEventAttributeValue { attr: Some(attr) };
        let attributes = [
            ("time".into(), attribute(Attr::CeTimestamp(SystemTime::now().into()))),
            ("datacontenttype".into(), attribute(Attr::CeString("application/json".into()))),
        ];
        let event = CloudEvent {
            id: Uuid::new_v4().to_string(),
            source: format!("urn:provider:{}", self.name),
            spec_version: "1.0".into(),
            r#type: "provider.metric.reported".into(),
            attributes: attributes.into(),
            data: Some(Data::TextData(data)),
        };
        let _ = self.events.send(event); // an error means that nobody listens
    }
}

#[tonic::async_trait]
impl Provider for Hello {
    type CallToolStream = Messages<CallToolResponse>;
    type InteractStream = Messages<InteractResponse>;
    type WatchStream = Messages<WatchResponse>;
    type EventsStream = Messages<CloudEvent>;

    async fn list_capabilities(&self, request: Request<ListCapabilitiesRequest>) -> Result<Response<ListCapabilitiesResponse>, Status> {
        match request.into_inner().page_token.as_str() {
            "" => Ok(Response::new(capabilities(&self.name))),
            token => Err(Status::invalid_argument(format!("no page {token:?}"))),
        }
    }

    /// Runs a tool that asks nothing.
    async fn call_tool(&self, request: Request<CallToolRequest>) -> Result<Response<Self::CallToolStream>, Status> {
        let request = request.into_inner();
        let result = match request.name.as_str() {
            "echo.v1" => CallToolResult {
                content: vec![text(arguments::<Echo>(&request)?.message)],
                structured_content: request.arguments,
                ..CallToolResult::default()
            },
            "count.v1" => return Ok(Response::new(count(&self.name, &request)?)),
            "notify.v1" => {
                self.emit(request.arguments);
                said("sent")
            }
            name => return Err(Status::not_found(format!("no tool {name:?}"))),
        };
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(result.into())))))
    }

    /// Runs greet.v1, which asks the user for a name, and for a title if the greeting is formal.
    async fn interact(&self, request: Request<Streaming<InteractRequest>>) -> Result<Response<Self::InteractStream>, Status> {
        let mut caller = request.into_inner();
        let call = match message(&mut caller).await? {
            interact_request::Message::CallTool(call) if call.name == "greet.v1" => call,
            _ => return Err(Status::not_found("only greet.v1 asks")),
        };
        let wanted: Greet = arguments(&call)?;
        let greeting = self.greeting.clone();
        Ok(Response::new(Box::pin(try_stream! {
            let mut parts = Vec::new();
            for (id, ask) in wanted.questions() {
                yield question(id, ask).into();
                match answered(&mut caller, id).await? {
                    Ok(part) => parts.insert(0, part),
                    Err(instead) => {
                        yield instead.into();
                        return;
                    }
                }
            }
            let new = format!("Hello, {}", parts.join(" "));
            greeting.send_if_modified(|old| std::mem::replace(old, new.clone()) != new);
            yield said(new).into();
        })))
    }

    async fn read_resource(&self, request: Request<ReadResourceRequest>) -> Result<Response<ReadResourceResponse>, Status> {
        let uri = request.into_inner().uri;
        if uri != GREETING {
            return Err(Status::not_found(format!("no resource {uri:?}")));
        }
        let contents = ResourceContents {
            uri,
            mime_type: "text/plain".into(),
            contents: Some(resource_contents::Contents::Text(self.greeting.borrow().clone())),
            ..ResourceContents::default()
        };
        Ok(Response::new(ReadResourceResponse {
            contents: vec![contents],
            ..ReadResourceResponse::default()
        }))
    }

    async fn get_prompt(&self, request: Request<GetPromptRequest>) -> Result<Response<GetPromptResponse>, Status> {
        let GetPromptRequest { name, arguments, .. } = request.into_inner();
        if name != "hello-plan" {
            return Err(Status::not_found(format!("no prompt {name:?}")));
        }
        let who = arguments.get("name").map_or("", String::as_str);
        let message = PromptMessage {
            role: Role::User.into(),
            content: Some(text(format!("Greet {who}, and propose a plan for the day."))),
        };
        Ok(Response::new(GetPromptResponse {
            description: "A greeting with a plan".into(),
            messages: vec![message],
            ..GetPromptResponse::default()
        }))
    }

    /// Proposes names.
    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<CompleteResponse>, Status> {
        let CompleteRequest { argument, value, .. } = request.into_inner();
        let names = ["Ada", "Alan", "Grace"].into_iter();
        let values = names.filter(|name| argument == "name" && name.starts_with(&value)).map(Into::into).collect();
        Ok(Response::new(CompleteResponse {
            values,
            ..CompleteResponse::default()
        }))
    }

    /// Reports that the greeting has changed.
    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let mut uris = request.into_inner().uris;
        uris.retain(|uri| uri == GREETING);
        let mut greeting = self.greeting.subscribe();
        let stop = self.stop.clone();
        Ok(Response::new(Box::pin(try_stream! {
            let watching = WatchRequest { uris: uris.clone(), ..WatchRequest::default() };
            yield WatchResponse { message: Some(watch_response::Message::Watching(watching)) };
            while until(&stop, greeting.changed()).await?.is_ok() {
                for uri in uris.clone() {
                    yield WatchResponse { message: Some(watch_response::Message::Updated(uri)) };
                }
            }
        })))
    }

    /// Streams the events from now on.
    async fn events(&self, _: Request<EventsRequest>) -> Result<Response<Self::EventsStream>, Status> {
        let mut events = self.events.subscribe();
        let stop = self.stop.clone();
        Ok(Response::new(Box::pin(try_stream! {
            loop {
                match until(&stop, events.recv()).await? {
                    Ok(event) => yield event,
                    Err(broadcast::error::RecvError::Lagged(_)) => {} // the oldest are lost
                    Err(broadcast::error::RecvError::Closed) => break,
                }
            }
        })))
    }
}

/// The arguments of echo.v1.
#[derive(Deserialize)]
struct Echo {
    message: String,
}

/// The arguments of count.v1.
#[derive(Deserialize)]
struct Count {
    to: u32,
    #[serde(default)]
    pause_ms: u64,
}

/// The arguments of greet.v1.
#[derive(Deserialize)]
struct Greet {
    question: Option<String>,
    #[serde(default)]
    formal: bool,
}

impl Greet {
    /// The questions to the user, each with its id.
    fn questions(self) -> Vec<(&'static str, String)> {
        let mut all = vec![("name", self.question.unwrap_or_else(|| "Who are you?".into()))];
        if self.formal {
            all.push(("title", "What is your title?".into()));
        }
        all
    }
}

/// Reads the arguments of a call, which Dragoman has checked against the schema.
fn arguments<T: DeserializeOwned>(call: &CallToolRequest) -> Result<T, Status> {
    serde_json::from_str(&call.arguments).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Counts to the number that is asked for.
fn count(logger: &str, call: &CallToolRequest) -> Result<Messages<CallToolResponse>, Status> {
    let Count { to, pause_ms } = arguments(call)?;
    let wants = call.wants.clone().unwrap_or_default();
    let logs = (LogLevel::Debug..=LogLevel::Info).contains(&wants.log());
    let logger = logger.to_owned();
    Ok(Box::pin(try_stream! {
        let mut counting = Counting { at: 0, to };
        for i in 1..=to {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            counting.at = i;
            if wants.progress {
                yield Message::Progress(Progress { progress: i.into(), total: Some(to.into()), message: format!("at {i}") }).into();
            }
            if logs {
                let data = json!(format!("counted {i}")).to_string();
                yield Message::Log(Log { level: LogLevel::Info.into(), logger: logger.clone(), data }).into();
            }
        }
        yield said(format!("counted to {to}")).into();
    }))
}

/// Says that a count did not come to its end, because it was cancelled and its stream dropped.
struct Counting {
    at: u32,
    to: u32,
}

impl Drop for Counting {
    fn drop(&mut self) {
        if self.at < self.to {
            eprintln!("provider-rust: count.v1 cancelled at {}", self.at);
        }
    }
}

/// Reads the next message of the caller.
async fn message(caller: &mut Streaming<InteractRequest>) -> Result<interact_request::Message, Status> {
    let next = caller.message().await?.and_then(|request| request.message);
    next.ok_or_else(|| Status::invalid_argument("the call ended before its result"))
}

/// A question to the user for a text, which has the name of the question.
fn question(id: &str, ask: String) -> Question {
    let schema = json!({"type": "object", "properties": {id: {"type": "string"}}, "required": [id]});
    Question {
        id: id.into(),
        method: "elicitation/create".into(),
        params: json!({"mode": "form", "message": ask, "requestedSchema": schema}).to_string(),
    }
}

/// Waits for the answer to a question. Returns the text, or the result of a call whose user gave none.
async fn answered(caller: &mut Streaming<InteractRequest>, id: &str) -> Result<Result<String, CallToolResult>, Status> {
    let interact_request::Message::Answer(answer) = message(caller).await? else {
        return Err(Status::invalid_argument("an answer was expected"));
    };
    let result = match answer.outcome {
        Some(Outcome::Result(result)) => result,
        failure => {
            let why = match failure {
                Some(Outcome::Failure(failure)) => failure.message,
                _ => "no answer".into(),
            };
            return Ok(Err(CallToolResult {
                is_error: true,
                ..said(format!("the client cannot be asked: {why}"))
            }));
        }
    };
    let result: serde_json::Value = serde_json::from_str(&result).unwrap_or_default();
    Ok(match result["content"][id].as_str() {
        Some(given) if result["action"] == "accept" => Ok(given.into()),
        _ => Err(said("nobody to greet")),
    })
}

/// Waits, or fails when the provider stops.
async fn until<T>(stop: &CancellationToken, wait: impl Future<Output = T>) -> Result<T, Status> {
    stop.run_until_cancelled(wait)
        .await
        .ok_or_else(|| Status::unavailable("the provider is stopping"))
}
