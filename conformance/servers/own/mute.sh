#!/bin/sh
# A minimal server without an SDK: POSIX sh, revision 2024-11-05, lines that end in CR LF. It does not answer methods that it does not know.
# It finds the id and the one argument with sed, so both must be simple.
say() { printf '%s\r\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
echo 'mute.sh is listening' >&2
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":[ ]*\("[^"]*"\|[0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"mute","version":"1.0.0"}}' ;;
    *'"method":"ping"'*) answer '{}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"say","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}' ;;
    *'"method":"tools/call"'*)
      text=$(printf '%s' "$line" | sed -n 's/.*"text":[ ]*"\([^"]*\)".*/\1/p')
      answer "{\"content\":[{\"type\":\"text\",\"text\":\"you said $text\"}]}" ;;
  esac
done
