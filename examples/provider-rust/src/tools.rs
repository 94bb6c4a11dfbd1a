//! What the provider offers, and the parts of messages.

use crate::contract::mcp::provider::v1::{
    CallToolResponse, CallToolResult, Content, Feature, Implementation, InteractResponse, ListCapabilitiesResponse, Prompt, Question, Resource, Tool,
    ToolAnnotations, call_tool_response, content, interact_response,
};

/// The resource.
pub const GREETING: &str = "hello://greeting";

/// Lists everything on one page.
pub fn capabilities(name: &str) -> ListCapabilitiesResponse {
    ListCapabilitiesResponse {
        provider: Some(Implementation {
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            title: "Hello from Rust".into(),
        }),
        features: [Feature::Complete, Feature::WatchResources, Feature::Events].map(Into::into).into(),
        tools: vec![
            Tool {
                name: "echo.v1".into(),
                description: "Returns the message unchanged".into(),
                input_schema: r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#.into(),
                output_schema: r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#.into(),
                annotations: Some(read_only()),
                ..Tool::default()
            },
            Tool {
                name: "count.v1".into(),
                description: "Counts slowly, and reports its progress".into(),
                input_schema: r#"{"type":"object","properties":{"to":{"type":"integer","minimum":1,"maximum":100},"pause_ms":{"type":"integer","minimum":0,"maximum":1000}},"required":["to"]}"#.into(),
                annotations: Some(read_only()),
                ..Tool::default()
            },
            Tool {
                name: "greet.v1".into(),
                description: "Asks the user for a name, and greets".into(),
                asks: true,
                input_schema: r#"{"type":"object","properties":{"question":{"type":"string","description":"what the user is asked"},"formal":{"type":"boolean","description":"asks for a title as well"}}}"#.into(),
                ..Tool::default()
            },
            Tool {
                name: "notify.v1".into(),
                description: "Emits an event".into(),
                input_schema: r#"{"type":"object","properties":{"metric":{"type":"string"},"value":{"type":"number"}},"required":["metric","value"]}"#.into(),
                ..Tool::default()
            },
        ],
        resources: vec![Resource {
            uri: GREETING.into(),
            name: "greeting".into(),
            description: "Returns the greeting".into(),
            mime_type: "text/plain".into(),
            ..Resource::default()
        }],
        prompts: vec![Prompt {
            name: "hello-plan".into(),
            description: "Greet a user and propose a plan".into(),
            args_schema: r#"{"type":"object","properties":{"name":{"type":"string","description":"who is greeted"}},"required":["name"]}"#.into(),
            ..Prompt::default()
        }],
        ..ListCapabilitiesResponse::default()
    }
}

fn read_only() -> ToolAnnotations {
    ToolAnnotations {
        read_only: Some(true),
        ..ToolAnnotations::default()
    }
}

pub fn text(of: impl Into<String>) -> Content {
    Content {
        kind: Some(content::Kind::Text(of.into())),
        ..Content::default()
    }
}

/// A result that is a text.
pub fn said(of: impl Into<String>) -> CallToolResult {
    CallToolResult {
        content: vec![text(of)],
        ..CallToolResult::default()
    }
}

// Every message of a stream is one of several kinds.
impl From<call_tool_response::Message> for CallToolResponse {
    fn from(message: call_tool_response::Message) -> Self {
        Self { message: Some(message) }
    }
}

impl From<CallToolResult> for CallToolResponse {
    fn from(result: CallToolResult) -> Self {
        call_tool_response::Message::Result(result).into()
    }
}

impl From<CallToolResult> for InteractResponse {
    fn from(result: CallToolResult) -> Self {
        Self {
            message: Some(interact_response::Message::Tool(result)),
        }
    }
}

impl From<Question> for InteractResponse {
    fn from(question: Question) -> Self {
        Self {
            message: Some(interact_response::Message::Question(question)),
        }
    }
}
