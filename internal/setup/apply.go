package setup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/internal/imported/clients"
)

// record is what an undo needs to know of a client's file. It lies beside the backup, which is the file as it was before the first setup.
type record struct {
	// Path is the client's file, and Existed says whether there was one: then "before" is its content.
	Path    string `json:"path"`
	Existed bool   `json:"existed"`
	// Changed means that others have changed the file between two setups: "before" is no longer what an undo should give.
	Changed bool `json:"changed"`
	// Entries are the names of Dragoman's entries, and Moved are the servers that were taken out, as the file had them.
	Entries []string `json:"entries"`
	Moved   []moved  `json:"moved"`
	// After is the SHA-256 of the file that setup wrote last, in hexadecimal digits.
	After string `json:"after"`
	// Made are the files that setup made, with their SHA-256.
	Made map[string]string `json:"made"`
}

// moved is a server that was taken out of a client's file.
type moved struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

const (
	recordFile = "setup.json"
	beforeFile = "before"
)

// ErrNotSetUp means that there is nothing to undo.
var ErrNotSetUp = errors.New("dragoman has not been set up there")

// key is short for a path.
func (s *Setup) key(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:4])
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// backup is the directory of the backup of a client's file.
func (s *Setup) backup(at clients.Installed) string {
	return filepath.Join(s.Dir, "backups", at.ID+"-"+s.key(at.Path))
}

// Backup returns where the client's file is kept as it was before the first setup.
func (p *Plan) Backup() string { return filepath.Join(p.setup.backup(p.Installed), beforeFile) }

// Apply makes the change: a backup unless there is one, the configuration, and then the client's file, each in one step. check judges the
// configuration before the client's file is touched; nil means that there is nothing to judge. After an error the client's file is as it was.
func (p *Plan) Apply(check func(config string) error) error {
	if err := p.unchanged(); err != nil {
		return err
	}
	if p.undo {
		return p.applyUndo()
	}
	r, err := p.open()
	if err != nil {
		return err
	}
	was, err := read(filepath.Join(p.setup.backup(p.Installed), recordFile))
	if err != nil {
		return err
	}
	if p.Config != "" {
		if err := p.configure(&r, check); err != nil {
			return err
		}
	}
	for _, name := range p.Moved {
		raw, _ := p.Raw(p.Before, name)
		r.Moved = append(slices.DeleteFunc(r.Moved, func(m moved) bool { return m.Name == name }), moved{name, string(raw)})
	}
	if !slices.Contains(r.Entries, p.setup.Name) {
		r.Entries = append(r.Entries, p.setup.Name)
	}
	r.After = hash(p.After)
	if err = p.backUp(&r, was == nil); err == nil {
		err = p.save(&r)
	}
	if err == nil {
		err = p.unchanged() // the client may have written meanwhile
	}
	if err == nil {
		err = p.write(p.Path, p.After, p.mode())
	}
	if err != nil {
		p.takeBack(was)
	}
	return err
}

// unchanged returns an error if the client's file is no longer as the plan has it.
func (p *Plan) unchanged() error {
	if now, err := read(p.Path); err != nil || (now == nil) != (p.Before == nil) || !bytes.Equal(now, p.Before) {
		return fmt.Errorf("%s has changed meanwhile; fix: run the command again", p.Path)
	}
	return nil
}

// takeBack makes record and configuration what they were before a setup that failed at the client's file.
func (p *Plan) takeBack(was []byte) {
	p.unconfigure()
	dir := p.setup.backup(p.Installed)
	if was == nil {
		_ = os.RemoveAll(dir) // the error of the setup is told
		return
	}
	_ = imported.WriteFile(filepath.Join(dir, recordFile), was, 0o600)
}

// open returns the record of the client's file; one with an empty After if this is the first setup.
func (p *Plan) open() (r record, err error) {
	dir := p.setup.backup(p.Installed)
	data, err := read(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if data != nil {
		if err := json.Unmarshal(data, &r); err != nil {
			return r, fmt.Errorf("%s cannot be read: %w; fix: move it away", filepath.Join(dir, recordFile), err)
		}
		r.Changed = r.Changed || hash(p.Before) != r.After
		return r, nil
	}
	return record{Path: p.Path, Existed: p.Before != nil, Made: map[string]string{}}, nil
}

// backUp keeps the file as it was before the first setup.
func (p *Plan) backUp(r *record, first bool) error {
	if !r.Existed || !first {
		return nil
	}
	return p.write(p.Backup(), p.Before, 0o600)
}

func (p *Plan) save(r *record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return p.write(filepath.Join(p.setup.backup(p.Installed), recordFile), append(data, '\n'), 0o600)
}

// configure writes the configuration and its secrets, and takes them back if the check fails.
func (p *Plan) configure(r *record, check func(string) error) error {
	had, err := read(p.Config)
	if err != nil {
		return err
	}
	secrets, err := p.secrets.Write()
	if err == nil {
		err = p.write(p.Config, []byte(p.ConfigText), 0o600)
	}
	if err == nil && check != nil {
		err = check(p.Config)
	}
	p.had = had
	for _, path := range secrets {
		if r.Made[path] == "" {
			p.fresh = append(p.fresh, path)
		}
	}
	if err != nil {
		p.unconfigure()
		return err
	}
	for _, path := range secrets {
		r.Made[path] = hash([]byte(p.secrets.Files[path]))
	}
	if had == nil || r.Made[p.Config] != "" {
		r.Made[p.Config] = hash([]byte(p.ConfigText))
	}
	return nil
}

// unconfigure makes the configuration and its secrets what they were. Nothing is told of what fails: the error of the setup is.
func (p *Plan) unconfigure() {
	if p.Config == "" {
		return
	}
	for _, path := range p.fresh {
		_ = os.Remove(path)
	}
	_ = os.Remove(p.secrets.Dir) // if it is empty
	if p.had == nil {
		_ = os.Remove(p.Config)
		return
	}
	_ = imported.WriteFile(p.Config, p.had, 0o600)
}

// write writes a file, through a link to where it is, in a directory that it makes.
func (p *Plan) write(path string, data []byte, mode os.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, value.Reason(err))
	}
	if err := imported.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, value.Reason(err))
	}
	return nil
}

// Undo returns the change that takes Dragoman out of a client's file. If nobody has changed the file since, it becomes what it was, byte by byte;
// else Dragoman's entry goes, the servers that were moved come back, and the changes of others stay. The error is [ErrNotSetUp], or says why it cannot be.
func (s *Setup) Undo(at clients.Installed) (*Plan, error) {
	dir := s.backup(at)
	data, err := read(filepath.Join(dir, recordFile))
	switch {
	case err != nil:
		return nil, err
	case data == nil:
		return nil, ErrNotSetUp
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; fix: the file as it was is %s", filepath.Join(dir, recordFile), err, filepath.Join(dir, beforeFile))
	}
	p := &Plan{Installed: at, setup: s, undo: true}
	if p.Before, err = read(at.Path); err != nil {
		return nil, err
	}
	var was []byte
	if r.Existed {
		if was, err = read(p.Backup()); err == nil && was == nil {
			err = fmt.Errorf("the backup %s is gone; fix: remove the entry %s from %s by hand", p.Backup(), strings.Join(r.Entries, ", "), at.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.Before != nil && hash(p.Before) == r.After && !r.Changed:
		p.After = was
	case p.Before == nil:
		return nil, fmt.Errorf("%s is gone; fix: the file as it was is %s", at.Path, p.Backup())
	default:
		if p.After, err = p.restore(&r, was); err != nil {
			return nil, fmt.Errorf("%s: %w", at.Path, err)
		}
		p.Lines = append(p.Lines, at.Path+" has been changed since: those changes stay, dragoman's entry goes, and the servers that were moved come back")
	}
	for path, sum := range r.Made {
		data, err := read(path)
		switch {
		case err == nil && data != nil && hash(data) == sum:
			p.remove = append(p.remove, path)
		case data != nil:
			p.Lines = append(p.Lines, path+" has been changed since, and stays with what belongs to it")
		}
	}
	if slices.ContainsFunc(p.Lines, func(line string) bool { return strings.HasSuffix(line, "what belongs to it") }) {
		p.remove = nil
	}
	slices.Sort(p.remove)
	return p, nil
}

// restore takes Dragoman's entry out of a file that others have changed, and puts the moved servers back.
func (p *Plan) restore(r *record, was []byte) ([]byte, error) {
	after, err := p.Remove(p.Before, r.Entries...)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Entries {
		if raw, had := p.Raw(was, name); had { // one of that name that was there before
			if after, err = p.Put(after, name, raw); err != nil {
				return nil, err
			}
		}
	}
	names, err := p.Servers(after)
	if err != nil {
		return nil, err
	}
	for _, m := range r.Moved {
		if m.Text == "" || slices.Contains(names, m.Name) || slices.Contains(r.Entries, m.Name) {
			continue
		}
		if after, err = p.Put(after, m.Name, []byte(m.Text)); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// applyUndo writes the client's file as Undo has planned it, and removes what setup made.
func (p *Plan) applyUndo() error {
	var err error
	if p.After == nil {
		err = os.Remove(p.Path)
	} else {
		err = p.write(p.Path, p.After, p.mode())
	}
	if err != nil {
		return err
	}
	for _, path := range p.remove {
		_ = os.Remove(path)               // what is left is a file that nobody reads
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
	dir := p.setup.backup(p.Installed)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // and Dragoman's own directory, if they are empty
	_ = os.Remove(p.setup.Dir)
	return nil
}
