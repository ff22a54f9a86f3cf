-- Query 6, the average closing price of each seller's last ten auctions, at the end of each.

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

SELECT seller, auction, expires,
       AVG(final) OVER (PARTITION BY seller ORDER BY expires, auction ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT a.seller, a.id AS auction, a.expires, MAX(b.bid) AS final
  FROM open_auction AS a JOIN bidder AS b ON a.id = b.auction
  WHERE b.time BETWEEN a.start AND a.expires
  GROUP BY a.seller, a.id, a.expires
);
