# shellcheck shell=bash
# Written by dragoman generate, not for editing. What the scripts of this folder share: bash 3.2 or later, and curl.
# A script sets mcp_tool, mcp_url, mcp_url_variable, mcp_token_variable, mcp_options and mcp_usage, and calls mcp_main.
# shellcheck disable=SC2154 # it sets them, not this file

set -u
LC_ALL=C # characters are bytes
shopt -u patsub_replacement 2>/dev/null || true # since bash 5.2 an & in a replacement would have a meaning

mcp_fail() { # CODE TEXT
  printf '%s: %s\n' "${0##*/}" "$2" >&2
  exit "$1"
}

mcp_wrong() { # TEXT
  mcp_fail 2 "$1; fix: ${0##*/} --help tells the options"
}

# mcp_string sets mcp_json to a text as a JSON string.
mcp_string() {
  local text=$1 code char escape
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  if [[ $text == *[[:cntrl:]]* ]]; then
    for code in 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f; do
      printf -v char '%b' "\\x$code"
      escape="\\u00$code"
      text=${text//"$char"/$escape}
    done
  fi
  mcp_json="\"$text\""
}

# mcp_value sets mcp_json to the value of an option as JSON.
mcp_value() { # OPTION KIND TEXT
  local number='^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$' integer='^-?(0|[1-9][0-9]*)$' json='^[[:space:]]*[][{"0-9tfn-]'
  mcp_json=$3
  case $2 in
    string) mcp_string "$3" ;;
    integer) [[ $3 =~ $integer ]] || mcp_wrong "$1 takes an integer, not \"$3\"" ;;
    number) [[ $3 =~ $number ]] || mcp_wrong "$1 takes a number, not \"$3\"" ;;
    boolean) [[ $3 == true || $3 == false ]] || mcp_wrong "$1 is true or false, not \"$3\"" ;;
    json) [[ $3 =~ $json ]] || mcp_wrong "$1 takes JSON, not \"$3\"" ;;
  esac
}

# mcp_arguments sets mcp_json to the tool's arguments: what the options say, or standard input.
mcp_arguments() {
  local values=() given option kind text i count=${#mcp_options[@]} list comma=
  while (($#)); do
    given=$1
    shift
    case $given in
      -h | --help)
        mcp_usage
        exit 0
        ;;
      -)
        ((!$# && !${#values[@]})) || mcp_wrong "- stands alone: the arguments are read from standard input"
        mcp_json=$(cat) || mcp_fail 1 "standard input cannot be read"
        [[ -n $mcp_json ]] || mcp_wrong "standard input is empty"
        return
        ;;
      --?*) ;;
      *) mcp_wrong "unexpected argument \"$given\"" ;;
    esac
    option=${given%%=*}
    for ((i = 0; i < count; i += 4)); do
      [[ ${mcp_options[i]} != "$option" ]] || break
    done
    ((i < count)) || mcp_wrong "unknown option \"$option\""
    kind=${mcp_options[i + 1]}
    if [[ $given == *=* ]]; then
      text=${given#*=}
    elif [[ $kind == boolean ]]; then
      text=true
    elif (($#)); then
      text=$1
      shift
    else
      mcp_wrong "the value of $option is missing"
    fi
    list=${kind#list:}
    mcp_value "$option" "$list" "$text"
    if [[ $list == "$kind" ]]; then
      [[ -z ${values[i]-} ]] || mcp_wrong "$option is there twice"
      values[i]=$mcp_json
    else
      values[i]=${values[i]-}${values[i]:+,}$mcp_json
    fi
  done
  text='{'
  for ((i = 0; i < count; i += 4)); do
    if [[ -z ${values[i]-} ]]; then
      [[ ${mcp_options[i + 2]} != required ]] || mcp_wrong "${mcp_options[i]} is missing"
      continue
    fi
    mcp_string "${mcp_options[i + 3]}"
    text+=$comma$mcp_json:
    case ${mcp_options[i + 1]} in
      list:*) text+="[${values[i]}]" ;;
      *) text+=${values[i]} ;;
    esac
    comma=,
  done
  mcp_json=$text'}'
}

# mcp_main calls the tool and prints the answer: on standard output, or, if the call has failed, on standard error.
mcp_main() {
  local url=${!mcp_url_variable:-$mcp_url} token=${!mcp_token_variable:-} answer body status headers=(--header 'Content-Type: application/json')
  mcp_arguments "$@"
  body=$mcp_json
  mcp_string "$mcp_tool"
  body="{\"tool\":$mcp_json,\"arguments\":$body}"
  [[ $token != *[[:cntrl:]]* ]] || mcp_fail 2 "$mcp_token_variable is no token: it has control characters"
  if [[ -n $token ]]; then # through a file descriptor: what is on a command line can be seen by others
    exec 3< <(printf 'Authorization: Bearer %s\n' "$token")
    headers+=(--header @/dev/fd/3)
  fi
  answer=$(printf %s "$body" | curl --silent --show-error --globoff --proto '=http,https' "${headers[@]}" --data-binary @- --write-out '\n%{http_code}' -- "${url%/}/call-tool") ||
    mcp_fail 1 "no answer from $url; fix: start what serves it, or set $mcp_url_variable"
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
  if ((status >= 200 && status < 300)); then
    printf '%s\n' "$answer"
    return
  fi
  printf '%s\n' "${answer:-HTTP status $status}" >&2
  exit 1
}
