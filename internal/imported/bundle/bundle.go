// Package bundle reads MCP bundles, files whose names end in .mcpb: archives with a server and a manifest of version 0.3 or 0.4 that says how to
// start it. What it reads was written by strangers: it starts nothing, and writes below one directory only.
package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Limits of a bundle. Servers of Node.js have thousands of small files.
const (
	maxFile     = 512 << 20 // bytes of the bundle
	maxEntries  = 100_000
	maxUnpacked = 2 << 30 // bytes of all files
	maxRatio    = 200     // of a file's bytes to those that it takes in the bundle; small files may have more
	smallFile   = 1 << 20
	maxPath     = 1024 // bytes
	maxPart     = 255  // bytes of each name in a path
	maxDepth    = 64
	maxManifest = 1 << 20
	// maxDirectory bounds the list of files, each of which takes some hundred bytes of memory.
	maxDirectory = 32 << 20
)

const manifestName = "manifest.json"

// Bundle is a bundle that was read. Nothing of it is unpacked before [Bundle.Unpack].
type Bundle struct {
	// Manifest is what the bundle says of itself.
	Manifest *Manifest
	// SHA256 is that of the bundle, in hexadecimal.
	SHA256 string
	// Signed means that there is a signature, which is not checked.
	Signed bool

	file  io.ReaderAt
	size  int64
	files []*zip.File // directories are made of the paths of files
	close func() error
}

// Open opens a bundle. sha256 is what its SHA-256 must be, in hexadecimal; empty: anything. Close it after use.
func Open(name, sha256 string) (*Bundle, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the bundle cannot be read: %w", err)
	}
	b, err := open(f, sha256)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the bundle %s cannot be used: %w", wire.Shown(name), err)
	}
	return b, nil
}

func open(f *os.File, sha256 string) (*Bundle, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	b, err := Read(f, info.Size(), sha256)
	if err == nil {
		b.close = f.Close
	}
	return b, err
}

// hexadecimal matches a SHA-256.
var hexadecimal = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Read is Open for a bundle of a size that is read from a file that the caller closes.
func Read(file io.ReaderAt, size int64, sha256 string) (*Bundle, error) {
	if size > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	sha256 = strings.ToLower(sha256)
	if sha256 != "" && !hexadecimal.MatchString(sha256) {
		return nil, errors.New("the SHA-256 that it must have is not 64 hexadecimal digits; fix: write what `sha256sum FILE` prints")
	}
	b := &Bundle{file: file, size: size, close: func() error { return nil }}
	var err error
	if b.SHA256, err = b.sum(); err != nil {
		return nil, err
	}
	if sha256 != "" && b.SHA256 != sha256 {
		return nil, fmt.Errorf("its SHA-256 is %s, and not %s: it is another file; fix: get it again, and do not use this one", b.SHA256, sha256)
	}
	directory := &bounded{file, maxDirectory}
	archive, err := zip.NewReader(directory, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("it is no archive of the form ZIP: %w", err)
	}
	directory.left = math.MaxInt64 // the files have bounds of their own
	if err := b.list(archive); err != nil {
		return nil, err
	}
	b.Signed = b.signed()
	return b, b.read()
}

// bounded is a file of which only so many bytes are read. The reader of archives reads as many entries as there are.
type bounded struct {
	io.ReaderAt
	left int64
}

var errDirectory = fmt.Errorf("its list of files has more than %d bytes", maxDirectory)

// ReadAt implements io.ReaderAt.
func (b *bounded) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errDirectory
	}
	return b.ReaderAt.ReadAt(p, at)
}

// Close closes the file of [Open].
func (b *Bundle) Close() { _ = b.close() } // it was only read

// sum returns the SHA-256 of the bundle.
func (b *Bundle) sum() (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(b.file, 0, b.size))
	if err == nil && n != b.size {
		err = errors.New("it changes while it is read")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// signed reports whether a signature of `mcpb sign` is at the end.
func (b *Bundle) signed() bool {
	const most = 64 << 10
	tail := make([]byte, min(b.size, most))
	_, err := b.file.ReadAt(tail, b.size-int64(len(tail)))
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Contains(tail, []byte("MCPB_SIG_V1")) && bytes.Contains(tail, []byte("MCPB_SIG_END"))
}

// list checks the entries of an archive: what it would take to unpack it safely.
func (b *Bundle) list(archive *zip.Reader) error {
	if len(archive.File) > maxEntries {
		return fmt.Errorf("it has more than %d files", maxEntries)
	}
	seen := map[string]bool{} // paths as file systems without case take them; true: a file
	total := uint64(0)
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, "/")
		if why := badPath(name); why != "" {
			return fmt.Errorf("the path %q in it %s", wire.Shown(f.Name), why)
		}
		isFile, err := checkEntry(f)
		if err != nil {
			return fmt.Errorf("%q in it %w", wire.Shown(f.Name), err)
		}
		key := fold(name)
		if before, twice := seen[key]; twice && (isFile || before) {
			return fmt.Errorf("the path %q is in it twice, as file systems without case take it", wire.Shown(f.Name))
		}
		seen[key] = isFile
		if total += f.UncompressedSize64; isFile {
			b.files = append(b.files, f)
		}
		if f.UncompressedSize64 > maxUnpacked || total > maxUnpacked {
			return fmt.Errorf("it has more than %d bytes when it is unpacked", maxUnpacked)
		}
	}
	for _, f := range b.files {
		for dir := path.Dir(fold(f.Name)); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return fmt.Errorf("the path %q leads through a file", wire.Shown(f.Name))
			}
		}
	}
	return nil
}

// fold returns a path as the least exact file system takes it.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// checkEntry reports whether an entry is a file, and not a directory. The error says why it is neither.
func checkEntry(f *zip.File) (isFile bool, err error) {
	const encrypted = 1
	mode := f.Mode()
	switch {
	case mode&os.ModeSymlink != 0:
		return false, errors.New("is a link, which could lead anywhere")
	case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
		if f.UncompressedSize64 != 0 {
			return false, errors.New("is a directory with content")
		}
		return false, nil
	case !mode.IsRegular():
		return false, errors.New("is neither a file nor a directory")
	case f.Flags&encrypted != 0:
		return false, errors.New("is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return false, fmt.Errorf("is compressed in a way (%d) that is not known", f.Method)
	case f.UncompressedSize64 > smallFile && f.UncompressedSize64/maxRatio > f.CompressedSize64:
		return false, fmt.Errorf("is more than %d times as large as in the bundle", maxRatio)
	}
	return true, nil
}

// reserved matches names that are devices on Windows, whatever follows a dot.
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)$`)

// badPath says why a path may not be unpacked; empty: it may.
func badPath(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxPath || strings.Count(name, "/") >= maxDepth:
		return "is too long"
	case value.BadByte([]byte(name)) >= 0 || value.HasControl(name):
		return "has bytes that are no text"
	case strings.HasPrefix(name, "/"):
		return "is absolute"
	case strings.ContainsAny(name, `\:*?"<>|`):
		return "has a character that is special on Windows"
	}
	for part := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(part, ".")
		switch {
		case part == "..":
			return "leads out of the bundle"
		case part == "" || part == ".":
			return "is not in its shortest form"
		case len(part) > maxPart:
			return "is too long"
		case strings.TrimRight(part, ". ") != part:
			return "ends with a dot or a blank, which Windows drops"
		case reserved.MatchString(strings.TrimSpace(stem)):
			return "is the name of a device on Windows"
		}
	}
	return ""
}

// has reports whether a file is in the bundle.
func (b *Bundle) has(name string) bool {
	return slices.ContainsFunc(b.files, func(f *zip.File) bool { return f.Name == name })
}

// read reads the manifest.
func (b *Bundle) read() error {
	at := slices.IndexFunc(b.files, func(f *zip.File) bool { return f.Name == manifestName })
	if at < 0 {
		return fmt.Errorf("it has no %s", manifestName)
	}
	data, err := content(b.files[at], maxManifest)
	if err == nil {
		b.Manifest, err = ParseManifest(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	if entry := b.Manifest.Server.EntryPoint; !b.has(path.Clean(entry)) {
		return fmt.Errorf("%s: the entry_point %q is not in it", manifestName, wire.Shown(entry))
	}
	return nil
}

// content returns the content of a file of at most so many bytes.
func content(f *zip.File, most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return data, err
}
