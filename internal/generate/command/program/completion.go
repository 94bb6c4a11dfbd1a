// Written by dragoman generate, not for editing.

package main

import (
	"fmt"
	"strings"
)

// scripts are the scripts of shells, which ask the command itself. %[1]s is its name, %[2]s the same as a name of a function.
var scripts = map[string]string{
	"bash": `_%[2]s() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" -- 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _%[2]s %[1]s
`,
	"zsh": `#compdef %[1]s
_%[2]s() {
  compadd -- ${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT-1]}" -- 2>/dev/null)"}
}
compdef _%[2]s %[1]s
`,
	"fish": `complete -c %[1]s -f -a '(%[1]s __complete (commandline -opc)[2..-1] -- 2>/dev/null)'
`,
}

func (p *program) completion(args []string) error {
	if len(args) != 1 || scripts[args[0]] == "" {
		return usageError("completion takes bash, zsh or fish; fix: source <(" + p.Name + " completion bash)")
	}
	fmt.Printf(scripts[args[0]], p.Name, strings.ReplaceAll(p.Name, "-", "_"))
	return nil
}

// complete prints the words that may follow those before the last, which is --.
func (p *program) complete(before []string) {
	if len(before) > 0 {
		before = before[:len(before)-1]
	}
	if len(before) == 0 {
		fmt.Println("list\ncompletion\nhelp\n--format")
		for _, t := range p.Tools {
			fmt.Println(t.Command)
		}
		return
	}
	t, err := p.find(before[0])
	if err != nil {
		return
	}
	for _, o := range t.Options {
		if before[len(before)-1] == "--"+o.Name && o.Kind != "boolean" {
			for _, v := range o.Values {
				fmt.Println(v)
			}
			return
		}
	}
	for _, o := range t.Options {
		fmt.Println("--" + o.Name)
	}
	fmt.Println("--help")
}
