CREATE TABLE lighthouse (
  lighthouse_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  island TEXT,
  height_m REAL,
  built_year INTEGER,
  automated_year INTEGER
);
CREATE TABLE keeper (
  keeper_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  birth_year INTEGER,
  nationality TEXT
);
CREATE TABLE posting (
  posting_id INTEGER PRIMARY KEY,
  keeper_id INTEGER REFERENCES keeper(keeper_id),
  lighthouse_id INTEGER REFERENCES lighthouse(lighthouse_id),
  start_year INTEGER,
  end_year INTEGER
);
CREATE TABLE storm (
  storm_id INTEGER PRIMARY KEY,
  lighthouse_id INTEGER REFERENCES lighthouse(lighthouse_id),
  storm_date TEXT,
  wind_kmh INTEGER,
  ships_saved INTEGER
);

INSERT INTO lighthouse VALUES (1, 'Gull Point', 'Harra', 21.5, 1871, 1988);
INSERT INTO lighthouse VALUES (2, 'Needle Rock', 'Harra', 34.0, 1902, 1995);
INSERT INTO lighthouse VALUES (3, 'Cape Sorrow', 'Ilen', 28.2, 1856, 1979);
INSERT INTO lighthouse VALUES (4, 'White Tooth', 'Vasker', 41.7, 1923, NULL);
INSERT INTO lighthouse VALUES (5, 'Fog Bell', 'Ilen', 15.3, 1834, 1966);
INSERT INTO lighthouse VALUES (6, 'Lantern Head', 'Osk', 37.9, 1911, 2001);
INSERT INTO lighthouse VALUES (7, 'Twin Stairs', 'Vasker', 19.8, 1889, NULL);
INSERT INTO keeper VALUES (1, 'Alder Moyne', 1841, 'Harran');
INSERT INTO keeper VALUES (2, 'Brigit Sandal', 1868, 'Ilenese');
INSERT INTO keeper VALUES (3, 'Casper Dree', 1875, 'Harran');
INSERT INTO keeper VALUES (4, 'Dorota Wells', 1890, 'Oskan');
INSERT INTO keeper VALUES (5, 'Emil Farrow', 1902, 'Vaskeri');
INSERT INTO keeper VALUES (6, 'Fenna Lock', 1911, 'Ilenese');
INSERT INTO keeper VALUES (7, 'Gus Pellam', 1925, 'Harran');
INSERT INTO keeper VALUES (8, 'Hedda Voss', 1938, 'Oskan');
INSERT INTO keeper VALUES (9, 'Ivo Marsh', 1944, 'Harran');
INSERT INTO posting VALUES (1, 1, 5, 1866, 1880);
INSERT INTO posting VALUES (2, 1, 1, 1880, 1899);
INSERT INTO posting VALUES (3, 2, 3, 1893, 1921);
INSERT INTO posting VALUES (4, 3, 2, 1902, 1910);
INSERT INTO posting VALUES (5, 3, 6, 1911, 1930);
INSERT INTO posting VALUES (6, 4, 2, 1912, 1940);
INSERT INTO posting VALUES (7, 5, 4, 1925, 1951);
INSERT INTO posting VALUES (8, 6, 5, 1936, 1966);
INSERT INTO posting VALUES (9, 7, 1, 1950, 1972);
INSERT INTO posting VALUES (10, 7, 4, 1972, 1981);
INSERT INTO posting VALUES (11, 8, 6, 1963, 2001);
INSERT INTO posting VALUES (12, 4, 7, 1940, 1949);
INSERT INTO storm VALUES (1, 1, '1883-01-19', 118, 2);
INSERT INTO storm VALUES (2, 3, '1901-11-04', 133, 5);
INSERT INTO storm VALUES (3, 2, '1907-02-27', 126, 1);
INSERT INTO storm VALUES (4, 6, '1914-10-30', 141, 3);
INSERT INTO storm VALUES (5, 5, '1938-12-12', 109, 0);
INSERT INTO storm VALUES (6, 4, '1929-03-15', 152, 4);
INSERT INTO storm VALUES (7, 4, '1947-01-08', 137, 2);
INSERT INTO storm VALUES (8, 1, '1953-01-31', 144, 7);
INSERT INTO storm VALUES (9, 6, '1968-09-21', 122, 1);
INSERT INTO storm VALUES (10, 2, '1931-11-17', 115, 0);
INSERT INTO storm VALUES (11, 3, '1911-04-02', 128, 6);
