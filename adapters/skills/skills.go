// Package skills writes Agent Skills (agentskills.io) for MCP servers from what they list, and describes skills as the extension
// io.modelcontextprotocol/skills (SEP-2640) does. It does no input or output.
//
// A skill is read by a model, and what a server says of itself is not trusted. So every text of a server is a code span or a fenced block
// that nothing in the text can end, with the characters that people do not see escaped, and the first sentence of a skill says that
// such texts are data. Texts and sizes are bounded; what is left out is in a further file of the skill, or is said to be left out.
package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// Main is the path of the file that every skill has.
const Main = "SKILL.md"

// Limits of a skill (SEP-2640, Limits): every host takes a skill up to these, and may refuse a larger one.
const (
	MaxFiles = 512
	MaxBytes = 16 << 20 // of all files
)

// Skill is a folder of files.
type Skill struct {
	Name        string // of the folder, and in the frontmatter
	Description string
	Files       []File // SKILL.md first
}

// File is a file of a skill.
type File struct {
	Path string // below the folder, with / between its parts
	MIME string
	Data []byte
}

// Digest returns the SHA-256 of data as the extension writes it: sha256: and 64 hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Check returns an error unless the skill has the form of an Agent Skill and keeps the limits: a frontmatter with its name and description,
// distinct paths below the folder, at most MaxFiles files and MaxBytes bytes.
func (s *Skill) Check() error {
	if len(s.Files) == 0 || s.Files[0].Path != Main {
		return fmt.Errorf("skills: %s has no %s", wire.Shown(s.Name), Main)
	}
	if len(s.Files) > MaxFiles {
		return fmt.Errorf("skills: %s has %d files; at most %d are taken", wire.Shown(s.Name), len(s.Files), MaxFiles)
	}
	size, seen := 0, make(map[string]bool, len(s.Files))
	for _, f := range s.Files {
		size += len(f.Data)
		lower := strings.ToLower(f.Path) // file systems that do not tell capitals apart
		if !local(f.Path) || seen[lower] {
			return fmt.Errorf("skills: %s is no path of a skill's file, or stands twice", wire.Shown(f.Path))
		}
		seen[lower] = true
	}
	if size > MaxBytes {
		return fmt.Errorf("skills: %s has %d bytes; at most %d are taken", wire.Shown(s.Name), size, MaxBytes)
	}
	head, _, err := Split(s.Files[0].Data)
	if err != nil {
		return err
	}
	if head.Name != s.Name || head.Description != s.Description {
		return fmt.Errorf("skills: the frontmatter of %s has another name or description", wire.Shown(s.Name))
	}
	return nil
}

// local reports whether a path stays below the folder on every system.
func local(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\:\x00") {
			return false
		}
	}
	return true
}

// Entry returns the description of the skill for skills/list and skills/get, a JSON object. root is the URI of the folder, without a
// slash at its end; its last part must be the skill's name. It fails if SKILL.md has no valid frontmatter.
func (s *Skill) Entry(root string) ([]byte, error) {
	if len(s.Files) == 0 {
		return nil, fmt.Errorf("skills: %s has no %s", wire.Shown(s.Name), Main)
	}
	head, _, err := Split(s.Files[0].Data)
	if err != nil {
		return nil, err
	}
	files := []byte{'['}
	for i, f := range s.Files {
		if i > 0 {
			files = append(files, ',')
		}
		files = append(files, wire.Object([]wire.Change{
			{Key: "uri", Value: wire.AppendText(nil, root+"/"+f.Path)},
			{Key: "digest", Value: wire.AppendText(nil, Digest(f.Data))},
			{Key: "size", Value: strconv.AppendInt(nil, int64(len(f.Data)), 10)},
		})...)
	}
	return wire.Object([]wire.Change{
		{Key: "uri", Value: wire.AppendText(nil, root+"/"+Main)},
		{Key: "frontmatter", Value: head.JSON},
		{Key: "resources", Value: append(files, ']')},
	}), nil
}
