-- XMark's descriptions: list items are inside list items, and texts have markup among their words. Here is each list
-- item that has a text, with its line, all words of the text, and those that stand in no markup.

CREATE STREAM listitem (
  words STRING PATH 'text',
  plain STRING PATH 'text/text()'
) WITH (source = 'samples/feeds/xmark.xml', element = 'listitem', nested = true);

SELECT "$line" AS line, words, plain FROM listitem WHERE words IS NOT NULL;
