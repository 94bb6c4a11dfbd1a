package schema

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"dragoman/proxy/wire"
)

// maxNesting is how deep messages may be nested in arguments and results, as in protobuf's C++, Java and Python.
const maxNesting = 100

// Request translates the arguments of a call, a JSON object, into the request message in the protobuf wire format. Empty arguments stand
// for {}. An error is the caller's fault; it names the place as a JSON Pointer (RFC 6901) and may be shown to clients.
func (t *Tool) Request(arguments []byte) (message []byte, err error) {
	defer rescue(&err)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	prefix := ""
	if wraps(t.Method.Input()) {
		if arguments, err = unwrap(arguments); err != nil {
			return nil, err
		}
		prefix = "/value"
	}
	m := dynamicpb.NewMessage(t.Method.Input())
	if err := (protojson.UnmarshalOptions{Resolver: t.types, RecursionLimit: maxNesting}).Unmarshal(arguments, m); err != nil {
		return nil, place(err, arguments, prefix)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// unwrap returns the member "value" of arguments that have no other.
func unwrap(arguments []byte) (value []byte, err error) {
	all, err := wire.ScanValue(arguments)
	if err != nil || !all.IsObject(arguments) {
		return nil, errors.New("grpc: the arguments are no JSON object; fix: send {\"value\": ...}")
	}
	for name, v := range wire.Members(arguments, all) {
		if value != nil || !name.Is(arguments, "value") {
			return nil, fmt.Errorf("grpc: arguments: unexpected member %s; fix: send {\"value\": ...}", wire.Shown(name.Text(arguments)))
		}
		value = v.Of(arguments)
	}
	if value == nil {
		return nil, errors.New("grpc: arguments: the member \"value\" is missing; fix: send {\"value\": ...}")
	}
	return value, nil
}

// Response translates a response message in the protobuf wire format into JSON: an object without white space, the same for the same
// message. For a method that streams it is one of the messages, see Messages. An error is the server's fault.
func (t *Tool) Response(message []byte) (json []byte, err error) {
	defer rescue(&err)
	m := dynamicpb.NewMessage(t.Method.Output())
	if err := (proto.UnmarshalOptions{Resolver: t.types, RecursionLimit: maxNesting}).Unmarshal(message, m); err != nil {
		return nil, t.badResponse(err)
	}
	out, err := protojson.MarshalOptions{Resolver: lenient{t.types}, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, t.badResponse(err)
	}
	out = compact(out)
	if wraps(t.Method.Output()) && !t.Method.IsStreamingServer() {
		out = (&object{}).set("value", out).json()
	}
	return out, nil
}

func (t *Tool) badResponse(err error) error {
	return fmt.Errorf("grpc: the response of %s has no JSON form: %s", shown(t.Method), wire.Shown(withoutMark(err)))
}

// Messages returns the result of a method that streams, of what Response made of each message.
func Messages(all [][]byte) []byte { return (&object{}).list("messages", all).json() }

var position = regexp.MustCompile(`\(line ([0-9]+):([0-9]+)\): `)

// place returns an error of protojson with the place in the arguments as a JSON Pointer instead of line and column.
func place(err error, arguments []byte, prefix string) error {
	why := withoutMark(err)
	at := position.FindStringSubmatchIndex(why)
	if at == nil {
		return fmt.Errorf("grpc: arguments: %s", wire.Shown(why))
	}
	line, _ := strconv.Atoi(why[at[2]:at[3]])
	column, _ := strconv.Atoi(why[at[4]:at[5]])
	why = why[:at[0]] + why[at[1]:]
	if all, err := wire.ScanValue(arguments); err == nil {
		if path := prefix + pointer(arguments, all, offset(arguments, line, column)); path != "" {
			return fmt.Errorf("grpc: arguments: at %s: %s", wire.Shown(path), wire.Shown(why))
		}
	}
	return fmt.Errorf("grpc: arguments: %s", wire.Shown(why))
}

// offset returns the index of a place that protojson names: lines and runes in a line, from 1.
func offset(raw []byte, line, column int) uint32 {
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(raw[at:], '\n') + 1
	}
	for ; column > 1 && at < len(raw); column-- {
		_, n := utf8.DecodeRune(raw[at:])
		at += n
	}
	return uint32(at)
}

// pointer returns the path to the innermost value around an offset.
func pointer(raw []byte, v wire.Span, at uint32) string {
	switch raw[v.From] {
	case '{':
		for name, value := range wire.Members(raw, v) {
			if at < value.To {
				return "/" + escaper.Replace(string(name.Text(raw))) + pointer(raw, value, at)
			}
		}
	case '[':
		for i, item := range wire.Items(raw, v) {
			if at < item.To {
				return "/" + strconv.Itoa(i) + pointer(raw, item, at)
			}
		}
	}
	return ""
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")
