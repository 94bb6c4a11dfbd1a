package reference

import (
	"dragoman/adapters/classification"
	"dragoman/internal/config"
)

// Table describes a table of the file.
type Table struct {
	// Doc says in a sentence what the table is for.
	Doc string
	// Names is the pattern of the names of its entries, which users choose; "": they are fixed.
	Names string
}

// Tables holds all tables of the file by name; "" stands for the keys before the first one.
var Tables = map[string]Table{
	"":                               {Doc: "The keys before the first table."},
	"service":                        {Doc: "The name of the service, and its address."},
	"admin":                          {Doc: "The listener for operators: health, readiness, metrics, log level, configuration, profiles."},
	"log":                            {Doc: "The log, on standard error."},
	"audit":                          {Doc: "The audit trail: who called which tool, and the outcome."},
	"sessions":                       {Doc: "Sessions of legacy clients."},
	"questions":                      {Doc: "Requests of servers to clients during a call: elicitation, sampling, roots."},
	"resume":                         {Doc: "Event streams that legacy clients can resume."},
	"idempotency":                    {Doc: "Repeated requests."},
	"rest":                           {Doc: "Callers without MCP."},
	"subregistry":                    {Doc: "The servers that a caller may use, listed as an MCP registry."},
	"cache":                          {Doc: "Results that modern servers allow to be cached."},
	"names":                          {Doc: "How clients call the tools and prompts of several servers at one endpoint."},
	"listing":                        {Doc: "Lists of several servers of which one is away."},
	"catalogue":                      {Doc: "The lists of several servers, kept over a restart."},
	"aggregator":                     {Doc: "Servers that are registered while Dragoman runs: who may do so, and what they may be."},
	"aggregator.keys":                {Doc: "API keys of those who see or register servers.", Names: config.KeyName.String()},
	"context":                        {Doc: "How much of a model's context the tools of several servers take: whether they are listed, or found with find_tools."},
	"search":                         {Doc: "How tools are found besides by their words."},
	"search.embeddings":              {Doc: "A model that turns texts into vectors, so that tools are found by meaning as well as by words: a service, or files that run inside the process."},
	"search.vectors":                 {Doc: "Where the vectors of tools are kept."},
	"contexts":                       {Doc: "The same for some clients. Of the tables that apply to a client, the one with the most conditions counts.", Names: config.UpstreamName.String()},
	"classification":                 {Doc: "What sorts the tools of several servers into categories, by which clients can narrow a search."},
	"categories":                     {Doc: "Categories of tools. Any table here takes the place of the whole standard set.", Names: classification.Named.String()},
	"groups":                         {Doc: "Some of the servers as one, each group at /groups/NAME/mcp.", Names: config.UpstreamName.String()},
	"reload":                         {Doc: "Reading the configuration again while Dragoman runs."},
	"limits":                         {Doc: "Sizes and numbers. Whatever exceeds one of these gets an error that names it."},
	"security":                       {Doc: "Who may reach the listener, and how often."},
	"security.api_keys":              {Doc: "API keys of clients.", Names: config.KeyName.String()},
	"security.jwt":                   {Doc: "Bearer tokens of an authorization server (OAuth 2.1)."},
	"tls":                            {Doc: "TLS of the main listener, and client certificates."},
	config.TracingHeadersKey:         {Doc: "Headers of every request to the collector."},
	"tracing":                        {Doc: "Spans of requests, and the OpenTelemetry collector that they are sent to."},
	"events":                         {Doc: "CloudEvents about what happens, and who gets them."},
	"events.sinks":                   {Doc: "Receivers of events. Without one there are no events.", Names: config.UpstreamName.String()},
	"events.sinks.NAME.headers":      {Doc: "Headers of every request to a webhook."},
	"policy_hook":                    {Doc: "A decision point that is asked about requests, and about their results."},
	config.HookHeadersKey:            {Doc: "Headers of every question to it."},
	"monitoring":                     {Doc: "Metrics and health checks."},
	config.DependenciesKey:           {Doc: "Services that this one depends on, besides its upstreams. Other keys of an entry are ignored.", Names: `.`},
	config.UpstreamsKey:              {Doc: "The servers, each under a name.", Names: config.UpstreamName.String()},
	"upstreams.NAME":                 {Doc: "One server. It has a `url` or a `command`."},
	"upstreams.NAME.oauth":           {Doc: "Tokens that Dragoman gets for the server, by client credentials."},
	"upstreams.NAME.grpc":            {Doc: "How a gRPC service is reached, and what of it. Only with a `grpc://`, `grpcs://` or `dns:` url."},
	"upstreams.NAME.headers":         {Doc: "Headers of every request to the server. Only with `url`.", Names: config.HeaderName.String()},
	"upstreams.NAME.forward_headers": {Doc: "Headers of clients that are passed on to the server. Only with `url`.", Names: config.HeaderName.String()},
	"upstreams.NAME.env":             {Doc: "Environment variables of the command. Only with `command`.", Names: config.VariableName.String()},
	"upstreams.NAME.scopes":          {Doc: "Scopes that a caller's credential must have, by tool, prompt, resource or method.", Names: `^(tool|prompt|resource|method):[^*]*\*?$`},
	"upstreams.NAME.tools":           {Doc: "Single tools; a name that ends in `*` covers all tools that begin so.", Names: `^[^*]+\*?$|^\*$`},
	"upstreams.NAME.prompts":         {Doc: "Single prompts; a name may end in `*`.", Names: `^[^*]+\*?$|^\*$`},
	"upstreams.NAME.resources":       {Doc: "Single resources, by URI; a URI may end in `*`.", Names: `^[^*]+\*?$|^\*$`},
	"upstreams.NAME.access":          {Doc: "Tools, prompts and resources that a principal may use. The entry `*` applies to everybody without an entry.", Names: `.`},
}
