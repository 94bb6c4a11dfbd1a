// Package search measures how well and how fast tools are found, over sets of tools and of queries that tell which tools answer them.
package search

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"dragoman/adapters/search/lexical"
)

// ErrNoData is the error of a directory that has no sets.
var ErrNoData = errors.New("no sets of tools and queries are there; fix: name a directory in which each set is a directory with tools.jsonl and queries.jsonl, or metatool or seal-tools as published")

// Set is tools, and queries for them.
type Set struct {
	Name    string
	Tools   []lexical.Document
	Queries []Query
}

// Query is a text, and the tools that answer it: places in the set.
type Query struct {
	Text  string
	Tools []int
}

// maxLine bounds a line of a set, in bytes.
const maxLine = 8 << 20

// Read returns the sets in the directories below dir, by name. Its error wraps ErrNoData if there are none.
func Read(dir string) (sets []Set, err error) {
	below, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range below {
		path := filepath.Join(dir, d.Name())
		for _, format := range formats {
			if !has(path, format.files...) {
				continue
			}
			set := Set{Name: d.Name()}
			if err := format.read(path, &set); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if len(set.Tools) == 0 || len(set.Queries) == 0 {
				return nil, fmt.Errorf("%s: a set needs tools and queries, and this has %d and %d", path, len(set.Tools), len(set.Queries))
			}
			sets = append(sets, set)
			break
		}
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoData)
	}
	return sets, nil
}

// formats are the forms of sets, by the files that they have.
var formats = []struct {
	files []string
	read  func(dir string, set *Set) error
}{
	{[]string{"tools.jsonl", "queries.jsonl"}, readOwn},
	{[]string{"plugin_des.json", "all_clean_data.csv"}, readMetaTool},
	{[]string{"tool.jsonl", "test_out_domain.jsonl"}, readSealTools},
}

func has(dir string, files ...string) bool {
	return !slices.ContainsFunc(files, func(file string) bool {
		info, err := os.Stat(filepath.Join(dir, file))
		return err != nil || !info.Mode().IsRegular()
	})
}

// names finds the tools of a set by what its queries call them.
type names map[string][]int

func (n names) add(name string, at int) { n[name] = append(n[name], at) }

// query adds a query to a set. Each of its tools must be there.
func (n names) query(set *Set, text string, tools []string) error {
	q := Query{Text: text}
	for _, name := range tools {
		at := n[name]
		if len(at) == 0 {
			return fmt.Errorf("a query asks for the tool %q, which the set has not got", name)
		}
		q.Tools = append(q.Tools, at...)
	}
	slices.Sort(q.Tools)
	if q.Tools = slices.Compact(q.Tools); len(q.Tools) == 0 {
		return fmt.Errorf("the query %q asks for no tool", text)
	}
	set.Queries = append(set.Queries, q)
	return nil
}

// readOwn reads definitions of MCP tools, each with the member server if need be, and queries with the names of tools, or SERVER/NAME.
func readOwn(dir string, set *Set) error {
	known := names{}
	err := lines(dir, "tools.jsonl", func(line []byte) error {
		var def struct {
			Server     string   `json:"server"`
			ServerText string   `json:"server_text"`
			Name       string   `json:"name"`
			Categories []string `json:"categories"`
		}
		if err := json.Unmarshal(line, &def); err != nil {
			return err
		}
		d := lexical.Parse(def.Server, def.Name, line)
		d.ServerText, d.Categories = def.Server, def.Categories
		if def.ServerText != "" {
			d.ServerText = def.Server + " " + def.ServerText
		}
		known.add(def.Name, len(set.Tools))
		known.add(def.Server+"/"+def.Name, len(set.Tools))
		set.Tools = append(set.Tools, d)
		return nil
	})
	if err != nil {
		return err
	}
	return lines(dir, "queries.jsonl", func(line []byte) error {
		var q struct {
			Query string   `json:"query"`
			Tools []string `json:"tools"`
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		return known.query(set, q.Query, q.Tools)
	})
}

// readMetaTool reads the tools of MetaTool, and that half of its queries by hash that is kept for reporting: the weights of the index were
// chosen with the other half.
func readMetaTool(dir string, set *Set) error {
	raw, err := os.ReadFile(filepath.Join(dir, "plugin_des.json"))
	if err != nil {
		return err
	}
	var described map[string]string
	if err := json.Unmarshal(raw, &described); err != nil {
		return fmt.Errorf("plugin_des.json: %w", err)
	}
	known := names{}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		known.add(name, len(set.Tools))
		set.Tools = append(set.Tools, lexical.Document{Server: set.Name, Name: name, Description: described[name]})
	}
	f, err := os.Open(filepath.Join(dir, "all_clean_data.csv"))
	if err != nil {
		return err
	}
	defer f.Close()
	rows := csv.NewReader(f)
	rows.FieldsPerRecord = 2
	for n := 0; ; n++ {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("all_clean_data.csv: %w", err)
		case n == 0 || !reported(row[0]):
			continue
		}
		if err := known.query(set, row[0], row[1:]); err != nil {
			return err
		}
	}
}

// reported reports whether a query of MetaTool is of the half that is kept for reporting.
func reported(query string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, query)
	return h.Sum32()%2 == 1
}

// readSealTools reads the tools of Seal-Tools, and its queries out of domain.
func readSealTools(dir string, set *Set) error {
	known := names{}
	err := lines(dir, "tool.jsonl", func(line []byte) error {
		var def struct {
			Name        string `json:"api_name"`
			Description string `json:"api_description"`
			Parameters  map[string]struct {
				Description string `json:"description"`
			} `json:"parameters"`
		}
		if err := json.Unmarshal(line, &def); err != nil {
			return err
		}
		d := lexical.Document{Server: set.Name, Name: def.Name, Description: def.Description}
		for _, name := range slices.Sorted(maps.Keys(def.Parameters)) {
			d.Parameters = append(d.Parameters, lexical.Parameter{Name: name, Description: def.Parameters[name].Description})
		}
		known.add(def.Name, len(set.Tools))
		set.Tools = append(set.Tools, d)
		return nil
	})
	if err != nil {
		return err
	}
	return lines(dir, "test_out_domain.jsonl", func(line []byte) error {
		var q struct {
			Query   string `json:"query"`
			Calling []struct {
				API string `json:"api"`
			} `json:"calling"`
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		var tools []string
		for _, call := range q.Calling {
			tools = append(tools, call.API)
		}
		return known.query(set, q.Query, tools)
	})
}

// lines calls see with the lines of a file that are not empty. Errors name the line.
func lines(dir, file string, see func(line []byte) error) error {
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	defer f.Close()
	all := bufio.NewScanner(f)
	all.Buffer(nil, maxLine)
	n := 1
	for ; all.Scan(); n++ {
		if line := bytes.TrimSpace(all.Bytes()); len(line) > 0 {
			if err := see(line); err != nil {
				return fmt.Errorf("%s:%d: %w", file, n, err)
			}
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, n, err)
	}
	return nil
}
