-- Query 7, the highest bid of every ten seconds.

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

WITH highest AS (
  SELECT window_start, MAX(bid) AS bid FROM TUMBLE(TABLE bidder, DESCRIPTOR(time), 10000) GROUP BY window_start
)
SELECT b.auction, b.person, b.bid, b.time
FROM TUMBLE(TABLE bidder, DESCRIPTOR(time), 10000) AS b
  JOIN highest AS h ON b.window_start = h.window_start AND b.bid = h.bid;
