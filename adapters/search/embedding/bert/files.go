package bert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-json"

	"dragoman/adapters/search/embedding"
)

// Names of the files, and the most that is read of one that is not the weights, in bytes.
const (
	weightsFile   = "model.safetensors"
	configFile    = "config.json"
	tokenizerFile = "tokenizer.json" //nolint:gosec // no secret
	modulesFile   = "modules.json"
	lengthFile    = "sentence_bert_config.json"
	maxFile       = 32 << 20
)

// config is config.json, as far as it matters.
type config struct {
	Type      string  `json:"model_type"`
	Activated string  `json:"hidden_act"`
	Position  string  `json:"position_embedding_type"`
	Hidden    int     `json:"hidden_size"`
	Inner     int     `json:"intermediate_size"`
	Heads     int     `json:"num_attention_heads"`
	Layers    int     `json:"num_hidden_layers"`
	Positions int     `json:"max_position_embeddings"`
	Words     int     `json:"vocab_size"`
	Epsilon   float64 `json:"layer_norm_eps"`

	first bool // the vector is that of the first token, else the mean of all
}

// Limits of an architecture: what the largest published BERT models have, with room.
const (
	maxInner     = 16384
	maxLayers    = 64
	maxPositions = 8192
	maxWords     = 1 << 20
)

// check reports a model that the encoder cannot run.
func (c *config) check() error {
	switch {
	case c.Type != "bert":
		return fmt.Errorf("%s: model_type is %q; fix: name the directory of a model of type bert, such as all-MiniLM-L6-v2, or set an endpoint that serves the model", configFile, c.Type)
	case c.Activated != "gelu" || c.Position != "" && c.Position != "absolute":
		return fmt.Errorf("%s: hidden_act %q with positions %q is not supported, gelu and absolute are; fix: set an endpoint that serves the model", configFile, c.Activated, c.Position)
	case c.Hidden < 1 || c.Hidden > embedding.MaxDimension || c.Inner < 1 || c.Inner > maxInner || c.Layers < 1 || c.Layers > maxLayers ||
		c.Positions < 3 || c.Positions > maxPositions || c.Words < 1 || c.Words > maxWords || c.Heads < 1 || c.Hidden%c.Heads != 0 || !(c.Epsilon >= 0):
		return fmt.Errorf("%s: sizes are missing or out of bounds; fix: copy the directory anew", configFile)
	}
	return nil
}

// identify returns the name of the model in a directory: the directory's, and a hash of what makes its vectors.
func identify(dir string) (string, error) {
	if _, err := readConfig(dir); err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{configFile, tokenizerFile, modulesFile, filepath.Join("1_Pooling", configFile), lengthFile} {
		raw, err := readFile(dir, name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n", name, len(raw))
		sum.Write(raw)
	}
	f, size, err := openWeights(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sample := make([]byte, min(size, 64<<10))
	for _, at := range []int64{0, size / 2, size - int64(len(sample))} { // training changes every weight
		n, err := f.ReadAt(sample, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%d %d\n", size, n)
		sum.Write(sample[:n])
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.Base(whole) + "@" + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// readFile reads a file of at most maxFile bytes.
func readFile(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name)) //nolint:gosec // the operator names the directory
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return raw, err
}

// readJSON decodes a file.
func readJSON(dir, name string, into any) error {
	raw, err := readFile(dir, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readConfig reads the architecture and how vectors of tokens become one.
func readConfig(dir string) (*config, error) {
	var c config
	if err := readJSON(dir, configFile, &c); err != nil {
		return nil, hint(err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	var modules []struct{ Path, Type string }
	if err := readJSON(dir, modulesFile, &modules); err != nil {
		return nil, hint(err)
	}
	var pooling struct {
		Mean  bool `json:"pooling_mode_mean_tokens"`
		First bool `json:"pooling_mode_cls_token"`
		Most  bool `json:"pooling_mode_max_tokens"`
		Root  bool `json:"pooling_mode_mean_sqrt_len_tokens"`
	}
	if len(modules) < 2 || len(modules) > 3 || len(modules) == 3 && filepath.Ext(modules[2].Type) != ".Normalize" ||
		filepath.Ext(modules[0].Type) != ".Transformer" || filepath.Ext(modules[1].Type) != ".Pooling" || modules[0].Path != "" || !filepath.IsLocal(modules[1].Path) {
		return nil, fmt.Errorf("%s: only a transformer, its pooling and the normalisation are supported; fix: set an endpoint that serves the model", modulesFile)
	}
	if err := readJSON(dir, filepath.Join(modules[1].Path, configFile), &pooling); err != nil {
		return nil, hint(err)
	}
	if pooling.Mean == pooling.First || pooling.Most || pooling.Root {
		return nil, errors.New("the pooling is neither the mean nor the first token; fix: set an endpoint that serves the model")
	}
	c.first = pooling.First
	return &c, nil
}

// hint says what to do about a file that is missing.
func hint(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; fix: name the directory of a sentence transformer with %s, %s, %s, %s and 1_Pooling/%s", err, weightsFile, configFile, tokenizerFile, modulesFile, configFile)
	}
	return err
}

// read reads a transformer: its configuration, its tokenizer and its weights.
func read(dir string) (*transformer, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	raw, err := readFile(dir, tokenizerFile)
	if err != nil {
		return nil, hint(err)
	}
	tokenizer, err := parseTokenizer(raw, c.Words)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	var length struct {
		Most int `json:"max_seq_length"`
	}
	if err := readJSON(dir, lengthFile, &length); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	longest := c.Positions
	if length.Most > 2 {
		longest = min(longest, length.Most)
	}
	f, size, err := openWeights(dir)
	if err != nil {
		return nil, err
	}
	t, err := newTransformer(c, f, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", weightsFile, err), f.Close())
	}
	t.tokenizer, t.longest = tokenizer, longest
	return t, nil
}

// openWeights opens the file of the weights.
func openWeights(dir string) (f *os.File, size int64, err error) {
	if f, err = os.Open(filepath.Join(dir, weightsFile)); err != nil { //nolint:gosec // the operator names the directory
		return nil, 0, hint(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", weightsFile)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// tensor says where the numbers of a tensor are.
type tensor struct {
	Kind  string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	Place []int64 `json:"data_offsets"`
}

// maxHeader bounds the description of the tensors, in bytes. The format allows 100 MB.
const maxHeader = 8 << 20

var errNoTensors = errors.New("is not in the safetensors format; fix: copy the file anew")

// weights are the tensors of a file in the safetensors format: the length of a JSON object in eight bytes, little-endian, the object, which has
// the place of each tensor, and their numbers.
type weights struct {
	f       io.ReaderAt
	start   int64 // of the numbers
	size    int64 // of them
	tensors map[string]tensor
}

func (w *weights) close() error {
	if c, ok := w.f.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// readWeights reads the description of the tensors of a file of size bytes.
func readWeights(f io.ReaderAt, size int64) (*weights, error) {
	var length [8]byte
	if size < int64(len(length)) {
		return nil, errNoTensors
	}
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return nil, err
	}
	n := int64(0)
	for i, b := range slices.Backward(length[:]) {
		if n = n<<8 | int64(b); n > maxHeader || n < 0 {
			return nil, fmt.Errorf("%w (byte %d)", errNoTensors, i)
		}
	}
	if n > size-int64(len(length)) {
		return nil, errNoTensors
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, int64(len(length))); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoTensors, err)
	}
	w := &weights{f: f, start: int64(len(length)) + n, size: size - int64(len(length)) - n, tensors: make(map[string]tensor, len(members))}
	for name, raw := range members {
		if name == "__metadata__" {
			continue
		}
		var t tensor
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoTensors, err)
		}
		w.tensors[name] = t
	}
	return w, nil
}

// place returns where the numbers of a tensor of 32-bit floats begin in the file, after a check of its shape. A model that was saved with a head
// has the prefix "bert." before its names.
func (w *weights) place(name string, shape ...int) (int64, error) {
	t, there := w.tensors[name]
	if !there {
		if t, there = w.tensors["bert."+name]; !there {
			return 0, fmt.Errorf("there is no tensor %s; fix: name the directory of a BERT model", name)
		}
	}
	if t.Kind != "F32" {
		return 0, fmt.Errorf("the tensor %s is of type %.10q; fix: use the model as published, in 32-bit floats", name, t.Kind)
	}
	count := int64(1)
	same := len(t.Shape) == len(shape) && len(t.Place) == 2
	for i, n := range shape {
		same = same && t.Shape[i] == int64(n)
		count *= int64(n)
	}
	if !same || t.Place[0] < 0 || t.Place[0] > w.size || t.Place[1]-t.Place[0] != 4*count || t.Place[1] > w.size {
		return 0, fmt.Errorf("the tensor %s is not of the shape %v, or not in the file; fix: copy the file anew", name, shape)
	}
	return w.start + t.Place[0], nil
}
