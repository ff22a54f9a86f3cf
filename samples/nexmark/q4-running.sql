-- Query 4 as in CQL: the changes of the average closing price of each category during the run. The timestamp of an
-- auction is its end, when it joins the bids up to then. The answer is a relation, so its changes are emitted.

CREATE STREAM open_auction (
  id INT NOT NULL PATH '@id',
  seller INT NOT NULL PATH 'seller/@person',
  category INT NOT NULL,
  start INT NOT NULL PATH 'interval/start',
  expires INT NOT NULL PATH 'interval/end'
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction', where = '@new = ''yes''', timestamp = 'expires');

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder', timestamp = 'time');

WITH closing AS (
  RSTREAM(
    SELECT a.id, a.category, MAX(b.bid) AS final
    FROM open_auction [NOW] AS a
      JOIN (SELECT auction, bid, time AS placed, time FROM bidder) [RANGE UNBOUNDED] AS b ON a.id = b.auction
    WHERE b.placed >= a.start
    GROUP BY a.id, a.category
  )
)
SELECT category, AVG(final) AS average FROM closing [RANGE UNBOUNDED] GROUP BY category;
