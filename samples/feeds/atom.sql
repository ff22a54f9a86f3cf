-- Atom: each entry once for each of its categories, and once if it has none. Of its links the one with rel="self";
-- its content as it stood, whatever markup is in it. Everything is in Atom's namespace, whatever the prefix.

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
