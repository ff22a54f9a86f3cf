-- Query 4, the average closing price of each category. A category has auctions until the stream ends, so its average is
-- final only then. The prices below it are not retained: each is final when its auction ends, and is purged then.

CREATE STREAM open_auction (
  id INT NOT NULL PATH '@id',
  seller INT NOT NULL PATH 'seller/@person',
  category INT NOT NULL,
  start INT NOT NULL PATH 'interval/start',
  expires INT NOT NULL PATH 'interval/end'
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction', where = '@new = ''yes''');

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

SELECT category, AVG(final) AS average
FROM (
  SELECT a.id, a.category, MAX(b.bid) AS final
  FROM open_auction AS a JOIN bidder AS b ON a.id = b.auction
  WHERE b.time BETWEEN a.start AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category;
