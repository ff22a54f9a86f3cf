-- XMark's descriptions: list items are nested, and texts contain markup. The query returns each list item that has a
-- text: its line, all words of the text, and the words outside of markup.

CREATE STREAM listitem (
  words STRING PATH 'text',
  plain STRING PATH 'text/text()'
) WITH (source = 'samples/feeds/xmark.xml', element = 'listitem', nested = true);

SELECT "$line" AS line, words, plain FROM listitem WHERE words IS NOT NULL;
