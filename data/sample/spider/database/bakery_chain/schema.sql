CREATE TABLE bakery (
  bakery_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  town TEXT,
  opened_year INTEGER,
  seats INTEGER
);
CREATE TABLE baker (
  baker_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  age INTEGER,
  home_town TEXT,
  hourly_wage REAL,
  bakery_id INTEGER REFERENCES bakery(bakery_id)
);
CREATE TABLE bread (
  bread_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  grain TEXT,
  price REAL,
  vegan TEXT
);
CREATE TABLE sale (
  sale_id INTEGER PRIMARY KEY,
  bakery_id INTEGER REFERENCES bakery(bakery_id),
  bread_id INTEGER REFERENCES bread(bread_id),
  day TEXT,
  loaves INTEGER
);

INSERT INTO bakery VALUES (1, 'Golden Crust', 'Almbeck', 1994, 24);
INSERT INTO bakery VALUES (2, 'Mill Lane', 'Almbeck', 2008, 12);
INSERT INTO bakery VALUES (3, 'The Warm Oven', 'Torfield', 1987, 30);
INSERT INTO bakery VALUES (4, 'Daily Loaf', 'Harrowick', 2015, NULL);
INSERT INTO bakery VALUES (5, 'Seven Grains', 'Torfield', 2019, 8);
INSERT INTO bakery VALUES (6, 'Old Bridge', 'Quenby', 1962, 40);
INSERT INTO baker VALUES (1, 'Ines Valdor', 34, 'Almbeck', 18.5, 1);
INSERT INTO baker VALUES (2, 'Bram Okely', 52, 'Torfield', 23.75, 3);
INSERT INTO baker VALUES (3, 'Suri Platt', 27, 'Quenby', 15.0, 1);
INSERT INTO baker VALUES (4, 'Odd Lindqvar', 45, 'Harrowick', 21.0, 4);
INSERT INTO baker VALUES (5, 'Mara Tinsel', 61, 'Quenby', 25.5, 6);
INSERT INTO baker VALUES (6, 'Kofi Ambry', 23, 'Almbeck', 14.25, 2);
INSERT INTO baker VALUES (7, 'Petra Holm', 38, 'Torfield', 19.0, 3);
INSERT INTO baker VALUES (8, 'Yann Brisco', 30, 'Almbeck', 16.75, 6);
INSERT INTO baker VALUES (9, 'Lena Fourie', 48, NULL, 22.0, 3);
INSERT INTO baker VALUES (10, 'Tobin Rask', 26, 'Harrowick', 15.5, NULL);
INSERT INTO bread VALUES (1, 'Rye Round', 'rye', 4.2, 'yes');
INSERT INTO bread VALUES (2, 'Butter Braid', 'wheat', 5.5, 'no');
INSERT INTO bread VALUES (3, 'Oat Tin', 'oat', 3.8, 'yes');
INSERT INTO bread VALUES (4, 'Seed Log', 'rye', 4.9, 'yes');
INSERT INTO bread VALUES (5, 'Milk Bun', 'wheat', 1.2, 'no');
INSERT INTO bread VALUES (6, 'Spelt Wheel', 'spelt', 6.4, 'yes');
INSERT INTO bread VALUES (7, 'Honey Cob', 'wheat', 4.6, 'no');
INSERT INTO bread VALUES (8, 'Dark Brick', 'rye', 5.1, 'yes');
INSERT INTO sale VALUES (1, 1, 1, '2023-03-01', 40);
INSERT INTO sale VALUES (2, 1, 2, '2023-03-01', 25);
INSERT INTO sale VALUES (3, 2, 1, '2023-03-01', 18);
INSERT INTO sale VALUES (4, 3, 5, '2023-03-01', 120);
INSERT INTO sale VALUES (5, 3, 3, '2023-03-02', 33);
INSERT INTO sale VALUES (6, 6, 6, '2023-03-02', 12);
INSERT INTO sale VALUES (7, 6, 1, '2023-03-02', 29);
INSERT INTO sale VALUES (8, 1, 5, '2023-03-02', 90);
INSERT INTO sale VALUES (9, 4, 7, '2023-03-02', 21);
INSERT INTO sale VALUES (10, 5, 6, '2023-03-03', 16);
INSERT INTO sale VALUES (11, 5, 4, '2023-03-03', 14);
INSERT INTO sale VALUES (12, 3, 2, '2023-03-03', 37);
INSERT INTO sale VALUES (13, 2, 3, '2023-03-03', 22);
INSERT INTO sale VALUES (14, 6, 4, '2023-03-03', 19);
INSERT INTO sale VALUES (15, 1, 7, '2023-03-04', 31);
INSERT INTO sale VALUES (16, 4, 5, '2023-03-04', 64);
INSERT INTO sale VALUES (17, 3, 1, '2023-03-04', 27);
INSERT INTO sale VALUES (18, 6, 2, '2023-03-04', 15);
