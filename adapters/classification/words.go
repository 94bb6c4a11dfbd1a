package classification

import "dragoman/adapters/search/lexical"

// maxWords bounds the words that are read of one text.
const maxWords = 400

// stems returns the words of a text in the form in which they are compared.
func stems(text string) []string { return lexical.Stems(text, maxWords) }

// empty are words of descriptions that say nothing of what a category is about.
var empty = func() map[string]bool {
	all := map[string]bool{}
	for _, word := range stems(`a about all an and any are as at be by can come do does for from get has have how in into is it its list may new no not now
		of on one or other out set that the their them there these they this those to up use used using what when where which who will with you your
		reading writing finding making changing opening running searching`) {
		all[word] = true
	}
	return all
}()
