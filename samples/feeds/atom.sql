-- Atom: a row for each category of an entry, and one row for an entry without category. It has the link with
-- rel="self", and the content with its markup. All elements are in Atom's namespace; prefixes do not matter.

CREATE STREAM entry (
  XMLNAMESPACES(DEFAULT 'http://www.w3.org/2005/Atom'),
  id STRING NOT NULL,
  title STRING,
  updated TIMESTAMP NOT NULL,
  author STRING PATH 'author/name',
  self STRING PATH 'link[@rel=''self'']/@href',
  category ARRAY(term STRING NOT NULL PATH '@term', label STRING PATH '@label'),
  content XML
) WITH (source = 'samples/feeds/atom.xml', element = 'entry');

SELECT e.id, e.title, e.updated, e.author, e.self, COALESCE(c.label, c.term) AS category, e.content
FROM entry AS e LEFT JOIN UNNEST(e.category) AS c ON TRUE;
