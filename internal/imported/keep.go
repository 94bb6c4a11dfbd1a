package imported

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Secrets collects the secrets of servers, each for a file of its own, or for a variable of the environment.
type Secrets struct {
	// Dir is the directory of the files; "" means variables.
	Dir string
	// Files are the contents by path.
	Files map[string]string
	// Variables are the values by name.
	Variables map[string]string
}

// Keep is for [Writer.Keep].
func (s *Secrets) Keep(server, name, secret string) (string, error) {
	if s.Dir == "" {
		return s.variable(server, name, secret), nil
	}
	if s.Files == nil {
		s.Files = map[string]string{}
	}
	base := fileName(server + "." + name[strings.IndexByte(name, '.')+1:])
	for n := 1; ; n++ {
		path := filepath.Join(s.Dir, base)
		if n > 1 {
			path += fmt.Sprintf("-%d", n)
		}
		if before, taken := s.Files[path]; taken && before != secret {
			continue
		}
		s.Files[path] = secret
		return filePrefix + path, nil
	}
}

func (s *Secrets) variable(server, name, secret string) string {
	if s.Variables == nil {
		s.Variables = map[string]string{}
	}
	table, own, _ := strings.Cut(name, ".")
	candidates := []string{VariableName(own), VariableName(server + "_" + own), VariableName(server + "_" + table + "_" + own)}
	if table != "env" {
		candidates = candidates[1:]
	}
	for n := 1; ; n++ {
		for _, one := range candidates {
			if n > 1 {
				one += fmt.Sprintf("_%d", n)
			}
			if before, taken := s.Variables[one]; !taken || before == secret {
				s.Variables[one] = secret
				return envPrefix + one
			}
		}
	}
}

// fileName makes a name of a file on every system: no separators, no dots at its begin, at most 100 bytes.
func fileName(name string) string {
	made := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	made = strings.TrimLeft(made, ".-")
	return made[:min(len(made), 100)]
}

// Write writes the files, which only their owner can read. It returns their paths; after an error, those that were written.
func (s *Secrets) Write() (written []string, err error) {
	if len(s.Files) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	for path, secret := range s.Files {
		if err := WriteFile(path, []byte(secret), 0o600); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// WriteFile writes a file in one step: whoever reads it gets the old content or the new one, also after a crash.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".dragoman-*")
	if err != nil {
		return err
	}
	temporary := f.Name()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // the error is told already
	}
	return err
}
