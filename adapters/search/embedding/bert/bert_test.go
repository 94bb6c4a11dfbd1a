package bert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Files of a model of two dimensions, with one layer of one head, and four words.
const (
	tinyConfig = `{"model_type":"bert","hidden_act":"gelu","hidden_size":2,"intermediate_size":2,"num_attention_heads":1,"num_hidden_layers":1,
		"max_position_embeddings":4,"vocab_size":5,"layer_norm_eps":1e-12}`
	tinyTokens = `{"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
		"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"##b":4}}}`
	tinyModules = `[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`
	tinyPooling = `{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":false,"pooling_mode_mean_sqrt_len_tokens":false}`
)

type numbers struct {
	shape []int
	all   []float32
}

// tinyWeights returns the tensors. Before the layer, a token is (1, -1) or (-1, 1).
func tinyWeights() map[string]numbers {
	all := map[string]numbers{
		"embeddings.word_embeddings.weight":       {[]int{5, 2}, []float32{9, 1, 9, 1, 9, 1, 1, 9, 1, 9}}, // a and ##b point the other way
		"embeddings.position_embeddings.weight":   {[]int{4, 2}, make([]float32, 8)},
		"embeddings.token_type_embeddings.weight": {[]int{2, 2}, make([]float32, 4)},
		"embeddings.LayerNorm.weight":             {[]int{2}, []float32{1, 1}},
		"embeddings.LayerNorm.bias":               {[]int{2}, []float32{0, 0}},
	}
	const layer = "encoder.layer.0."
	for name, diagonal := range map[string]float32{"attention.self.query": 0, "attention.self.key": 0, "attention.self.value": 3, "attention.output.dense": 1, "intermediate.dense": 1, "output.dense": 1} {
		all[layer+name+".weight"] = numbers{[]int{2, 2}, []float32{diagonal, 0, 0, diagonal}}
		all[layer+name+".bias"] = numbers{[]int{2}, []float32{0, 0}}
	}
	for name, n := range map[string][4]float32{"attention.output": {1, 1, 0, 0}, "output": {2, 1, 0, .5}} {
		all[layer+name+".LayerNorm.weight"] = numbers{[]int{2}, n[:2]}
		all[layer+name+".LayerNorm.bias"] = numbers{[]int{2}, n[2:]}
	}
	return all
}

// safetensors returns a file of the tensors.
func safetensors(all map[string]numbers) string {
	var head []string
	var body []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n, start := all[name], len(body)
		for _, v := range n.all {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
		}
		head = append(head, fmt.Sprintf(`%q:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, name, strings.ReplaceAll(fmt.Sprint(n.shape), " ", ","), start, len(body)))
	}
	header := `{"__metadata__":{"format":"pt"},` + strings.Join(head, ",") + "}"
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + string(body)
}

// tiny writes the files of the model, those of changed replaced, and without those that are empty there.
func tiny(t testing.TB, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{configFile: tinyConfig, tokenizerFile: tinyTokens, modulesFile: tinyModules, "1_Pooling/config.json": tinyPooling, weightsFile: safetensors(tinyWeights())}
	maps.Copy(files, changed)
	if err := os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, dir string) *Model {
	t.Helper()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// The vector of "a", by hand: [CLS], a and [SEP] are (1, -1), (-1, 1), (1, -1). Queries and keys are zero, so that attention is the mean of the
// values, three times (1/3, -1/3), and a becomes (0, 0). x + gelu(x) keeps the directions. The last normalisation makes (2, -1/2), (0, 1/2) and
// (2, -1/2), whose mean is (4/3, -1/6).
func TestByHand(t *testing.T) {
	length := math.Hypot(4./3, 1./6)
	mean := []float32{float32(4 / 3. / length), float32(-1 / 6. / length)}
	length = math.Hypot(2, .5)
	first := []float32{float32(2 / length), float32(-.5 / length)}
	for name, c := range map[string]struct {
		changed map[string]string
		want    []float32
	}{
		"mean":  {nil, mean},
		"first": {map[string]string{"1_Pooling/config.json": `{"pooling_mode_cls_token":true}`}, first},
	} {
		m := open(t, tiny(t, c.changed))
		got, err := m.Embed(t.Context(), []string{"a", "A", " á "})
		if err != nil || len(got) != 3 {
			t.Fatal(len(got), err)
		}
		for _, v := range got {
			for i := range v {
				if math.Abs(float64(v[i]-c.want[i])) > 1e-6 {
					t.Errorf("%s: %v, want %v", name, v, c.want)
				}
			}
		}
	}
}

// Two models have the same name only if their vectors are the same.
func TestNames(t *testing.T) {
	weights := tinyWeights()
	weights["encoder.layer.0.output.dense.bias"] = numbers{[]int{2}, []float32{0, .001}}
	seen := map[string]string{}
	for what, changed := range map[string]map[string]string{
		"as it is": nil, "trained": {weightsFile: safetensors(weights)}, "pooled": {"1_Pooling/config.json": `{"pooling_mode_cls_token":true}`},
		"cut": {lengthFile: `{"max_seq_length":3}`}, "words": {tokenizerFile: strings.Replace(tinyTokens, `"a":3,"##b":4`, `"a":4,"##b":3`, 1)},
	} {
		dir := tiny(t, changed)
		name := open(t, dir).Name()
		if again := open(t, dir).Name(); again != name {
			t.Errorf("%s: %s, then %s", what, name, again)
		}
		_, sum, _ := strings.Cut(name, "@")
		if seen[sum] != "" || len(sum) != 16 {
			t.Errorf("%s: the name is %s, as that of %q", what, name, seen[sum])
		}
		seen[sum] = what
	}
}

func TestTokens(t *testing.T) {
	tk, err := parseTokenizer([]byte(tinyTokens), 5)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"": {}, "a": {3}, "ab": {3, 4}, "abb": {3, 4, 4}, "abc": {0}, "b": {0}, "a a": {3, 3}, "a.a": {3, 0, 3}, "a\ta\r\na": {3, 3, 3}, "Á": {3}, "a\u00adb": {3, 4},
		"a東a": {3, 0, 3}, "[SEP]": {0, 0, 0}, "a\xff\x00b": {3, 4}, strings.Repeat("a", maxWord+1): {0}, "a" + strings.Repeat("b", 99): slices.Concat([]int32{3}, slices.Repeat([]int32{4}, 99)),
		"a" + strings.Repeat("b", 100): {0}, "a\u00a0a": {3, 3}, "a+a": {3, 0, 3},
	} {
		want = slices.Concat([]int32{1}, want, []int32{2})
		if got := tk.encode(text, 512); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tk.encode(strings.Repeat("ab ", 1<<20), 4); !reflect.DeepEqual(got, []int32{1, 3, 4, 2}) {
		t.Errorf("a long text: %v", got)
	}
}

// A directory that is not of a model that can be run is an error that says so.
func TestRefused(t *testing.T) {
	short := safetensors(tinyWeights())
	for want, changed := range map[string]map[string]string{
		"name the directory of a sentence transformer": {configFile: ""},
		`model_type is "gpt2"`:                         {configFile: `{"model_type":"gpt2"}`},
		"sizes are missing":                            {configFile: strings.Replace(tinyConfig, `"hidden_size":2`, `"hidden_size":0`, 1)},
		"out of bounds":                                {configFile: strings.Replace(tinyConfig, `"num_hidden_layers":1`, `"num_hidden_layers":1000`, 1)},
		`hidden_act "relu"`:                            {configFile: strings.Replace(tinyConfig, "gelu", "relu", 1)},
		"only a transformer, its pooling":              {modulesFile: `[{"path":"","type":"x.Transformer"}]`},
		"neither the mean nor the first token":         {"1_Pooling/config.json": `{"pooling_mode_max_tokens":true}`},
		"model.safetensors":                            {weightsFile: ""},
		"the tokenizer is not that of BERT":            {tokenizerFile: `{"model":{"type":"BPE"}}`},
		"has the number 7":                             {tokenizerFile: strings.Replace(tinyTokens, `"##b":4`, `"##b":7`, 1)},
		"there is no token":                            {tokenizerFile: strings.Replace(tinyTokens, `"[CLS]":1`, `"[XLS]":1`, 1)},
		"not in the safetensors format":                {weightsFile: "pickle"},
		"not of the shape":                             {configFile: strings.Replace(tinyConfig, `"intermediate_size":2`, `"intermediate_size":3`, 1)},
		"or not in the file":                           {weightsFile: short[:len(short)-1]},
		"there is no tensor":                           {weightsFile: safetensors(map[string]numbers{"x": {[]int{1}, []float32{1}}})},
		"is of type":                                   {weightsFile: strings.ReplaceAll(short, `"F32"`, `"F16"`)},
	} {
		m, err := Open(tiny(t, changed))
		if err == nil {
			_, err = m.Embed(t.Context(), []string{"a"})
			_ = m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A call ends with its context, and none is answered after Close.
func TestEnds(t *testing.T) {
	m := open(t, tiny(t, nil))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	m.turn <- struct{}{} // another caller's
	done := make(chan error, 1)
	go func() {
		_, err := m.Embed(ctx, []string{"a"})
		done <- err
	}()
	cancel(why)
	if err := testkit.Receive(t, "the end of the call", done); !errors.Is(err, why) {
		t.Error(err)
	}
	<-m.turn
	if _, err := m.Embed(ctx, []string{"a"}); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(t.Context(), []string{"a"}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// Many callers at a time get what one gets, also from a model that is read meanwhile.
func TestManyCallers(t *testing.T) {
	dir := tiny(t, nil)
	want, err := open(t, dir).Embed(t.Context(), []string{"a ab"})
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	done := make(chan bool)
	for range 8 {
		go func() {
			same := true
			for range 50 {
				got, err := m.Embed(t.Context(), []string{"x", "a ab"})
				same = same && err == nil && reflect.DeepEqual(got[1], want[0])
			}
			done <- same
		}()
	}
	for range 8 {
		if !testkit.Receive(t, "a caller", done) {
			t.Error("other vectors, or an error")
		}
	}
}

func FuzzWeights(f *testing.F) {
	f.Add([]byte(safetensors(tinyWeights())))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	c := &config{Hidden: 2, Inner: 2, Heads: 1, Layers: 1, Positions: 4, Words: 5}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tr, err := newTransformer(c, strings.NewReader(string(raw)), int64(len(raw)))
		if err != nil {
			return
		}
		if _, err := tr.run(t.Context(), [][]int32{{1, 3, 2}}, 1); err != nil {
			t.Error(err)
		}
	})
}

func FuzzTokens(f *testing.F) {
	tk, err := parseTokenizer([]byte(tinyTokens), 5)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"a ab", "\xff東Á\u0301", "[SEP]\x00"} {
		f.Add(text, 8)
	}
	f.Fuzz(func(t *testing.T, text string, longest int) {
		longest = 3 + (longest&0x7fffffff)%64
		ids := tk.encode(text, longest)
		if len(ids) < 2 || len(ids) > longest || ids[0] != 1 || ids[len(ids)-1] != 2 {
			t.Errorf("%v of at most %d", ids, longest)
		}
	})
}
