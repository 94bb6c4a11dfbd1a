package report

import (
	"io"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/suite"
)

// The used part of SARIF 2.1.0 (OASIS), with its names.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	ColumnKind  string            `json:"columnKind"`
	Results     []sarifResult     `json:"results"` // none is an empty array: null would say that nothing was looked at
	Properties  map[string]any    `json:"properties,omitempty"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Short      sarifText      `json:"shortDescription"`
	Full       sarifText      `json:"fullDescription"`
	Help       sarifHelp      `json:"help"`
	HelpURI    string         `json:"helpUri,omitempty"`
	Default    sarifLevel     `json:"defaultConfiguration"`
	Properties map[string]any `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifHelp struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown"`
}

type sarifLevel struct {
	Level string `json:"level"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Start         string              `json:"startTimeUtc"`
	End           string              `json:"endTimeUtc"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level      string    `json:"level"`
	Message    sarifText `json:"message"`
	Descriptor *sarifRef `json:"associatedRule,omitempty"`
}

type sarifRef struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
}

type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	RuleIndex    int                `json:"ruleIndex"`
	Level        string             `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
	Suppressions []sarifSuppression `json:"suppressions"` // an empty array says that it is not suppressed
	Properties   map[string]any     `json:"properties"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact struct {
		URI string `json:"uri"`
	} `json:"artifactLocation"`
	Region struct {
		StartLine int `json:"startLine"`
	} `json:"region"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification,omitempty"`
}

// sarifFile stands for the server: viewers of results need a file.
const sarifFile = "mcp-server"

// SARIF writes the report as SARIF 2.1.0: a rule for each check that found something, a result for each failure (error), warning and
// note. An expected failure is a suppressed result; a check that could not be carried out is a notification of the run.
func (r *Report) SARIF(w io.Writer) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}, Properties: map[string]any{"targets": r.Targets, "totals": r.Totals}}
	run.Tool.Driver = sarifDriver{Name: r.Tool, Version: r.Version, Rules: []sarifRule{}}
	for _, c := range r.Checks {
		if slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Check == c.ID && f.Outcome != suite.Passed && f.Outcome != suite.Skipped
		}) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(c))
		}
	}
	invocation := sarifInvocation{Successful: r.Ended == "", Start: r.Began.UTC().Format(time.RFC3339),
		End: r.Began.UTC().Add(time.Duration(r.TookMS) * time.Millisecond).Format(time.RFC3339)}
	note := func(level, text string, rule *sarifRef) {
		invocation.Notifications = append(invocation.Notifications, sarifNotification{Level: level, Message: sarifText{clean(text)}, Descriptor: rule})
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		at := slices.IndexFunc(run.Tool.Driver.Rules, func(rule sarifRule) bool { return rule.ID == f.Check })
		switch f.Outcome {
		case suite.Passed, suite.Skipped:
		case suite.Broken:
			note("error", f.Key()+" could not be carried out: "+f.Reason, &sarifRef{f.Check, at})
		default:
			run.Results = append(run.Results, f.sarif(r.check(f.Check), at))
		}
	}
	for _, s := range r.Stale {
		note("error", "stale entry in the list of expected failures, line "+itoa(s.Line)+": "+s.Entry+": "+s.Why, nil)
	}
	if r.Ended != "" {
		note("error", "the run was ended before its time: "+r.Ended, nil)
	}
	run.Invocations = []sarifInvocation{invocation}
	return writeJSON(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

// levelOf returns SARIF's name of a level.
func levelOf(o suite.Outcome) string {
	switch o {
	case suite.Failed:
		return "error"
	case suite.Warned:
		return "warning"
	}
	return "note"
}

func sarifRuleOf(c Check) sarifRule {
	level := map[string]string{"MUST": "error", "SHOULD": "warning"}[c.Level]
	if level == "" {
		level = "note"
	}
	text, markdown := c.Statement, c.Statement
	for _, part := range [][2]string{{"Why", c.Why}, {"Fix", c.Fix}, {"Page", c.Page}} {
		if part[1] != "" {
			text += "\n\n" + part[0] + ": " + part[1]
			markdown += "\n\n**" + part[0] + ":** " + part[1]
		}
	}
	return sarifRule{ID: c.ID, Name: c.ID, Short: sarifText{c.Title}, Full: sarifText{c.Statement}, Help: sarifHelp{text, markdown}, HelpURI: c.URL,
		Default: sarifLevel{level}, Properties: map[string]any{"level": c.Level, "tags": []string{"mcp", c.Area()}}}
}

func (f *Finding) sarif(c Check, rule int) sarifResult {
	var lines []string
	for _, p := range f.Problems {
		lines = append(lines, "Expected "+p.Expected+"; got "+p.Got)
	}
	if len(lines) == 0 {
		lines = []string{c.Title}
	}
	out := sarifResult{RuleID: f.Check, RuleIndex: rule, Level: levelOf(f.Outcome), Message: sarifText{f.Place() + ": " + clean(strings.Join(lines, "\n"))},
		Fingerprints: map[string]string{"dragomanConformance/v1": f.Key()}, Suppressions: []sarifSuppression{},
		Properties: map[string]any{"face": f.Face, "revision": f.Revision, "behind": f.Behind, "evidence": f.Evidence}}
	var at sarifLocation
	at.Physical.Artifact.URI, at.Physical.Region.StartLine = sarifFile, 1
	at.Logical = []sarifLogical{{Name: f.Place(), Kind: "module"}}
	out.Locations = []sarifLocation{at}
	if f.Expected != nil {
		out.Suppressions = append(out.Suppressions, sarifSuppression{Kind: "external", Justification: strings.TrimSpace(f.Expected.Entry + " " + f.Expected.Reason)})
	}
	return out
}
