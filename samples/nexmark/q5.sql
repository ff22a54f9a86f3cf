-- Query 5, hot items: the auctions with the most bids in the last ten seconds, every two seconds.

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

WITH counts AS (
  SELECT auction, window_start, window_end, COUNT(*) AS bids
  FROM HOP(TABLE bidder, DESCRIPTOR(time), 2000, 10000)
  GROUP BY auction, window_start, window_end
), most AS (
  SELECT window_start, window_end, MAX(bids) AS bids FROM counts GROUP BY window_start, window_end
)
SELECT c.auction, c.bids, c.window_start, c.window_end
FROM counts AS c JOIN most AS m
  ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids = m.bids;
